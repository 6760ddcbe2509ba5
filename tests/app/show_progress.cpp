// Prints the given progress reports to standard error as attend does, for terminal_test.py.
//
//   show_progress MAX_STEPS REPORT...
//   REPORT: "progress STEP SECONDS LOSS" | "evaluation STEP LOSS"
//         | "activity MILLISECONDS NAME" (with 3 of 4 parts done)
//         | "columns N" (resizes the terminal) | "failure" (throws)

#include "terminal/activity.h"
#include "terminal/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace {

using attend::train::Evaluation;
using attend::train::Progress;

void show(attend::app::ProgressLine& line, int64_t max_steps, const std::string& report) {
  std::istringstream words(report);
  std::string kind;
  int64_t step = 0;
  words >> kind >> step;
  const auto number = [&] {  // std::stod also reads "nan"
    std::string word;
    words >> word;
    return std::stod(word);
  };
  if (kind == "progress") {
    Progress progress{.step = step, .lr = 3e-4, .tokens_per_second = 51200.0};
    progress.seconds = number();
    progress.seconds_left =
        progress.seconds / static_cast<double>(step) * static_cast<double>(max_steps - step);
    progress.train_loss = number();
    line.on_progress(progress);
  } else if (kind == "evaluation") {
    static double lowest = std::numeric_limits<double>::infinity();
    const auto loss = number();
    const bool is_best = loss < lowest;
    if (is_best) lowest = loss;
    line.on_evaluation(step, Evaluation{.loss = loss, .exact_match = {1, 2}, .is_best = is_best});
  } else if (kind == "activity") {
    std::string name;
    words >> name;
    attend::app::Activity activity(name, "parts");
    activity.show(3, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(step));
  } else if (kind == "columns") {
    const winsize size{
        .ws_row = 24, .ws_col = static_cast<unsigned short>(step), .ws_xpixel = 0, .ws_ypixel = 0};
    if (::ioctl(STDERR_FILENO, TIOCSWINSZ, &size) != 0) throw std::runtime_error("not a terminal");
  } else {
    throw std::runtime_error(report);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int64_t max_steps = std::atoll(argv[1]);
    attend::app::ProgressLine line(max_steps);
    for (int i = 2; i < argc; ++i) show(line, max_steps, argv[i]);
    line.on_finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
