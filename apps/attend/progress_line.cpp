#include "progress_line.h"

#include "progress_text.h"
#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

namespace attend::app {
namespace {

constexpr double kSecondsBetweenLines = 30.0;
constexpr const char* kEraseLine = "\r\x1b[K";
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";

std::string coloured(const std::string& text, const char* colour, bool wanted) {
  return wanted ? fmt::format("{}{}{}", colour, text, kPlain) : text;
}

}  // namespace

ProgressLine::ProgressLine(int64_t steps, double best_loss)
    : steps_(steps),
      terminal_(error_is_terminal()),
      colours_(terminal_ && colours_are_welcome()),
      best_loss_(best_loss) {}

ProgressLine::~ProgressLine() {
  ProgressLine::on_finish();
}

void ProgressLine::on_progress(const train::Progress& progress) {
  last_ = progress;
  if (terminal_) {
    draw();
  } else if (progress.seconds - printed_ >= kSecondsBetweenLines) {
    print_line(progress_log_text(progress, steps_));
  }
}

void ProgressLine::on_evaluation(int64_t step, const train::Evaluation& evaluation) {
  auto text = fmt::format("step {}/{}  loss {:.3f}  val loss {:.3f}", step, steps_,
                          last_.train_loss, evaluation.loss);
  if (evaluation.accuracy) text += fmt::format("  accuracy {:.1f} %", *evaluation.accuracy * 100);
  text +=
      fmt::format("  {:.0f} tokens/s  {}", last_.tokens_per_second, duration_text(last_.seconds));
  if (last_.skipped_steps > 0) text += fmt::format("  {} skipped", last_.skipped_steps);
  if (evaluation.loss < best_loss_) {
    best_loss_ = evaluation.loss;
    text += coloured("  best", kGreen, colours_);
  }
  print_line(text);
  if (terminal_) draw();
}

void ProgressLine::on_finish() {
  if (drawn_) write_error("\n");
  drawn_ = false;
}

void ProgressLine::draw() {
  // One column stays free: some terminals go to the next line as soon as the last is taken.
  const auto text = progress_text(last_, steps_, terminal_width(STDERR_FILENO) - 1);
  write_error(kEraseLine + coloured(text, kFaint, colours_));
  drawn_ = true;
}

void ProgressLine::print_line(const std::string& text) {
  write_error(fmt::format("{}{}\n", drawn_ ? kEraseLine : "", text));
  drawn_ = false;
  printed_ = last_.seconds;
}

}  // namespace attend::app
