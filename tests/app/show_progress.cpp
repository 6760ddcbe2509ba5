// Shows on standard error what the command would for the reports given, so that terminal_test.py
// need not train for minutes.
//
//   show_progress STEPS REPORT...
//   REPORT: "progress STEP SECONDS LOSS" | "evaluation STEP LOSS" | "failure", which is thrown

#include "progress_line.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace {

using attend::train::Evaluation;
using attend::train::Progress;

void show(attend::app::ProgressLine& line, const std::string& report) {
  std::istringstream words(report);
  std::string kind;
  int64_t step = 0;
  words >> kind >> step;
  const auto number = [&] {  // nan as well
    std::string word;
    words >> word;
    return std::stod(word);
  };
  if (kind == "progress") {
    Progress progress{.step = step, .learning_rate = 3e-4, .tokens_per_second = 51200.0};
    progress.seconds = number();
    progress.train_loss = number();
    line.on_progress(progress);
  } else if (kind == "evaluation") {
    line.on_evaluation(step, Evaluation{.loss = number(), .accuracy = 0.5});
  } else {
    throw std::runtime_error(report);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    attend::app::ProgressLine line(std::atoll(argv[1]));
    for (int i = 2; i < argc; ++i) show(line, argv[i]);
    line.on_finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
