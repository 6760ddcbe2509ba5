#include "progress_line.h"

#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

namespace attend::app {

ProgressLine::ProgressLine(int64_t steps)
    : steps_(steps), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::on_progress(const train::Progress& progress) {
  last_ = progress;
  if (!terminal_) return;
  const double seconds_left = progress.seconds / static_cast<double>(progress.step) *
                              static_cast<double>(steps_ - progress.step);
  write_error(fmt::format(
      "\r\x1b[Kstep {}/{}  loss {:.3f}  lr {:.2e}  {:.0f} tokens/s  {:.0f} s left", progress.step,
      steps_, progress.loss, progress.learning_rate, progress.tokens_per_second, seconds_left));
}

void ProgressLine::on_evaluation(int64_t step, const train::Evaluation& evaluation) {
  const auto accuracy = evaluation.accuracy
                            ? fmt::format("  accuracy {:.1f} %", *evaluation.accuracy * 100)
                            : std::string();
  write_error(
      fmt::format("{}step {}/{}  loss {:.3f}  val loss {:.3f}{}  {:.0f} tokens/s  {:.0f} s\n",
                  terminal_ ? "\r\x1b[K" : "", step, steps_, last_.loss, evaluation.loss, accuracy,
                  last_.tokens_per_second, last_.seconds));
}

}  // namespace attend::app
