#include "progress_line.h"

#include "progress_text.h"
#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

namespace attend::app {
namespace {

constexpr double kSecondsBetweenLines{kBetweenLines.count()};
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kReset = "\x1b[0m";

std::string colored(const std::string& text, const char* color, bool enabled) {
  return enabled ? fmt::format("{}{}{}", color, text, kReset) : text;
}

}  // namespace

ProgressLine::ProgressLine(int64_t max_steps, double best_loss)
    : max_steps_(max_steps),
      terminal_(error_is_terminal()),
      colors_(terminal_ && colors_enabled()),
      best_loss_(best_loss) {}

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
  auto text = evaluation_line(step, evaluation, last_, max_steps_);
  if (evaluation.loss < best_loss_) {
    best_loss_ = evaluation.loss;
    text += " | " + colored("best", kGreen, colors_);
  }
  print_line(text);
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
