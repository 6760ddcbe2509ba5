#include "terminal/progress_line.h"

#include "terminal/number_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace attend::app {
namespace {

constexpr double kSecondsBetweenLines{kBetweenLines.count()};
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";

std::string colored(const std::string& text, const char* color, bool enabled) {
  return enabled ? fmt::format("{}{}{}", color, text, kResetColor) : text;
}

constexpr std::size_t kBarFrame = 3;  // a space and two brackets
constexpr std::size_t kMinBar = 10;
constexpr std::size_t kMaxBar = 30;
constexpr const char* kSeparator = " | ";

// Fields in order of importance, the most important first. If the terminal is too narrow, the
// least important fields are dropped.
enum Rank { kSteps, kValLoss, kBest, kLoss, kAccuracy, kEta, kBar, kSkipped, kSpeed, kLr };

struct Field {
  Rank rank;
  std::string text;
};

double fraction_done(const train::Progress& progress, int64_t max_steps) {
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(max_steps), 0.0, 1.0);
}

/// Formats a duration as m:ss or h:mm:ss.
std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(seconds);
  const auto hours = whole / 3600;
  if (hours == 0) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
}

std::string eta_text(const train::Progress& progress) {
  return "eta " + duration_text(progress.seconds_left);
}

std::string speed_text(const train::Progress& progress) {
  return count_text(std::round(progress.tokens_per_second)) + " tok/s";
}

/// The fields of a line, in the order in which they are printed.
std::vector<Field> fields_of(const train::Progress& progress, int64_t max_steps) {
  std::vector<Field> fields{{kSteps, fmt::format("{}/{}", progress.step, max_steps)},
                            {kLoss, fmt::format("train loss {:.4f}", progress.train_loss)},
                            {kLr, fmt::format("lr {:.2e}", progress.lr)},
                            {kSpeed, speed_text(progress)}};
  if (progress.step > 0) fields.push_back({kEta, eta_text(progress)});
  if (progress.skipped_steps > 0) {
    fields.push_back({kSkipped, fmt::format("skipped {}", progress.skipped_steps)});
  }
  return fields;
}

std::string joined(const std::vector<Field>& fields) {
  std::string text;
  for (const auto& field : fields) text += (text.empty() ? " " : kSeparator) + field.text;
  return text;
}

/// Returns the fields that fit in `columns`. Fields less important than the bar are dropped if a
/// bar of `min_bar` columns would not fit beside them.
std::vector<Field> fitting(std::vector<Field> fields, std::size_t columns, std::size_t min_bar) {
  const auto by_rank = [](const Field& a, const Field& b) { return a.rank < b.rank; };
  while (!fields.empty()) {
    const auto last = std::max_element(fields.begin(), fields.end(), by_rank);
    const auto bar = last->rank > kBar ? min_bar : 0;
    if (joined(fields).size() + bar <= columns) break;
    fields.erase(last);
  }
  return fields;
}

/// Returns a bar such as " [====>    ]" with at most `columns` columns. Returns an empty string if
/// the shortest bar needs more columns.
std::string bar(double fraction, std::size_t columns) {
  if (columns < kMinBar + kBarFrame) return {};
  const auto length = std::min(columns - kBarFrame, kMaxBar);
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(length));
  auto inside = std::string(filled, '=') + std::string(length - filled, ' ');
  if (filled < length) inside[filled] = '>';
  return fmt::format(" [{}]", inside);
}

/// Formats the progress bar of a run of `max_steps` steps. The text has at most `width` columns;
/// fields that do not fit are dropped. If all fields fit, the text is, for example:
///
///      42% [===>     ] 168/400 | train loss 2.3450 | lr 3.00e-04 | 51.2k tok/s | eta 1:12
std::string progress_bar(const train::Progress& progress, int64_t max_steps, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const double fraction = fraction_done(progress, max_steps);
  const auto percent = fmt::format("{:3.0f}%", std::floor(fraction * 100));
  const auto fields = fitting(fields_of(progress, max_steps),
                              columns - std::min(percent.size(), columns), kBarFrame + kMinBar);
  const auto rest = joined(fields);
  const auto taken = percent.size() + rest.size();
  const auto room = columns > taken ? columns - taken : 0;
  return (percent + bar(fraction, room) + rest).substr(0, columns);
}

/// Formats a log line for a training step:
///
///     step 168/400 | train loss 2.3450 | lr 3.00e-04 | 51.2k tok/s | eta 1:12
std::string step_line(const train::Progress& progress, int64_t max_steps) {
  return "step" + joined(fields_of(progress, max_steps));
}

/// Formats a log line for an evaluation at `step`. The text has at most `columns` columns; fields
/// that do not fit are dropped. If all fields fit, the text is, for example:
///
///     step 168/400 | train loss 2.3450 | val loss 2.2510 | acc 97.3% | 51.2k tok/s | eta 1:12 |
///     best
std::string evaluation_line(int64_t step, const train::Evaluation& evaluation,
                            const train::Progress& progress, int64_t max_steps, std::size_t columns,
                            bool colors) {
  // There is no progress before an evaluation that is repeated when a run resumes.
  const bool has_progress = progress.step > 0;
  std::vector<Field> fields{{kSteps, fmt::format("{}/{}", step, max_steps)}};
  if (has_progress)
    fields.push_back({kLoss, fmt::format("train loss {:.4f}", progress.train_loss)});
  fields.push_back({kValLoss, fmt::format("val loss {:.4f}", evaluation.loss)});
  if (const auto accuracy = evaluation.accuracy())
    fields.push_back({kAccuracy, fmt::format("acc {:.1f}%", *accuracy * 100)});
  if (evaluation.f1) fields.push_back({kAccuracy, fmt::format("f1 {:.4f}", *evaluation.f1)});
  if (has_progress) {
    fields.push_back({kSpeed, speed_text(progress)});
    fields.push_back({kEta, eta_text(progress)});
  }
  if (progress.skipped_steps > 0)
    fields.push_back({kSkipped, fmt::format("skipped {}", progress.skipped_steps)});
  if (evaluation.is_best) fields.push_back({kBest, "best"});
  const std::string start = "step";
  fields = fitting(std::move(fields), columns - std::min(start.size(), columns), /*min_bar=*/0);
  for (auto& field : fields) {  // after fitting, since codes of colors take no columns
    if (field.rank == kBest) field.text = colored(field.text, kGreen, colors);
  }
  return start + joined(fields);
}

}  // namespace

ProgressLine::ProgressLine(int64_t max_steps)
    : max_steps_(max_steps),
      terminal_(error_is_terminal()),
      colors_(terminal_ && colors_enabled()) {}

ProgressLine::~ProgressLine() {
  ProgressLine::on_finish();
}

void ProgressLine::on_progress(const train::Progress& progress) {
  last_ = progress;
  if (terminal_) {
    draw();
  } else if (progress.seconds - printed_at_ >= kSecondsBetweenLines) {
    print_line(step_line(progress, max_steps_));
  }
}

void ProgressLine::on_evaluation(int64_t step, const train::Evaluation& evaluation) {
  // -1, as for the bar. A log has lines of any length.
  const auto columns = terminal_ ? static_cast<std::size_t>(terminal_width(STDERR_FILENO) - 1)
                                 : std::numeric_limits<std::size_t>::max();
  print_line(evaluation_line(step, evaluation, last_, max_steps_, columns, colors_));
  if (terminal_) draw();
}

void ProgressLine::on_finish() {
  if (drawn_) write_error("\n");
  drawn_ = false;
}

void ProgressLine::draw() {
  // -1: some terminals wrap as soon as the last column is used.
  const auto text = progress_bar(last_, max_steps_, terminal_width(STDERR_FILENO) - 1);
  write_error(kEraseLine + colored(text, kFaint, colors_));
  drawn_ = true;
}

void ProgressLine::print_line(const std::string& text) {
  write_error(fmt::format("{}{}\n", drawn_ ? kEraseLine : "", text));
  drawn_ = false;
  printed_at_ = last_.seconds;
}

}  // namespace attend::app
