#include "progress_text.h"

#include "number_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace attend::app {
namespace {

constexpr std::size_t kBarFrame = 3;  // a space and two brackets
constexpr std::size_t kMinBar = 10;
constexpr std::size_t kMaxBar = 30;
constexpr const char* kSeparator = " | ";

// Fields in order of importance, the most important first. If the terminal is too narrow, the
// least important fields are dropped.
enum Rank { kSteps, kLoss, kEta, kBar, kSkipped, kSpeed, kLr };

struct Field {
  Rank rank;
  std::string text;
};

double fraction_done(const train::Progress& progress, int64_t max_steps) {
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(max_steps), 0.0, 1.0);
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

/// Returns the fields that fit in `columns`. Fields less important than the bar are dropped if the
/// bar would not fit beside them.
std::vector<Field> fitting(std::vector<Field> fields, std::size_t columns) {
  const auto by_rank = [](const Field& a, const Field& b) { return a.rank < b.rank; };
  while (!fields.empty()) {
    const auto last = std::max_element(fields.begin(), fields.end(), by_rank);
    const auto bar = last->rank > kBar ? kBarFrame + kMinBar : 0;
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

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(seconds);
  const auto hours = whole / 3600;
  if (hours == 0) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
}

std::string progress_bar(const train::Progress& progress, int64_t max_steps, int width) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const double fraction = fraction_done(progress, max_steps);
  const auto percent = fmt::format("{:3.0f}%", std::floor(fraction * 100));
  const auto fields =
      fitting(fields_of(progress, max_steps), columns - std::min(percent.size(), columns));
  const auto rest = joined(fields);
  const auto taken = percent.size() + rest.size();
  const auto room = columns > taken ? columns - taken : 0;
  return (percent + bar(fraction, room) + rest).substr(0, columns);
}

std::string step_line(const train::Progress& progress, int64_t max_steps) {
  return "step" + joined(fields_of(progress, max_steps));
}

std::string evaluation_line(int64_t step, const train::Evaluation& evaluation,
                            const train::Progress& progress, int64_t max_steps) {
  // There is no progress before an evaluation that is repeated when a run resumes.
  const bool has_progress = progress.step > 0;
  std::vector<std::string> fields{fmt::format("step {}/{}", step, max_steps)};
  if (has_progress) fields.push_back(fmt::format("train loss {:.4f}", progress.train_loss));
  fields.push_back(fmt::format("val loss {:.4f}", evaluation.loss));
  if (const auto accuracy = evaluation.accuracy())
    fields.push_back(fmt::format("acc {:.1f}%", *accuracy * 100));
  if (has_progress) {
    fields.push_back(speed_text(progress));
    fields.push_back(eta_text(progress));
  }
  if (progress.skipped_steps > 0)
    fields.push_back(fmt::format("skipped {}", progress.skipped_steps));
  return fmt::format("{}", fmt::join(fields, kSeparator));
}

}  // namespace attend::app
