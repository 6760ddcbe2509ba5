// Compares the time of a model's forward pass with the time of the program that `load_pt2` loads
// from the model's .pt2 archive:
//
//     bench_load_pt2 [ROUNDS]
//
// The model has the size of GPT-2 124M. Both sides first compute the same logits, and are then
// called in turns. Prints the medians and the median of the ratios, for several inputs.
#include "attend/model_export/export_plan.h"
#include "attend/models/language_model.h"
#include "attend/pt2/pt2_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>

namespace attend {
namespace {

double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(int64_t rounds) {
  const torch::NoGradGuard no_grad;
  LanguageModel model(LanguageModelConfig{.vocab_size = 50257,
                                          .max_seq_len = 1024,
                                          .stack = {.num_layers = 12,
                                                    .num_heads = 12,
                                                    .embed_dim = 768,
                                                    .activation = Activation::gelu_tanh}});
  model->eval();
  const auto path = std::filesystem::temp_directory_path() / "bench_load_pt2.pt2";
  export_pt2(plan_export(model), path);
  const auto program = load_pt2(path);
  std::filesystem::remove(path);
  std::cout << fmt::format("{:>8} {:>12} {:>12} {:>7}\n", "tokens", "module", "load_pt2", "ratio");
  for (const int64_t length : {1, 16, 128, 512}) {
    const auto tokens = torch::randint(50257, {1, length}, torch::kLong);
    const auto difference =
        (program.forward({tokens}).front() - model(tokens)).abs().max().item<double>();
    if (!(difference < 1e-3)) {
      throw std::runtime_error(fmt::format("the logits differ by {}", difference));
    }
    std::vector<double> modules;
    std::vector<double> programs;
    std::vector<double> ratios;
    for (int64_t i = 0; i < rounds; ++i) {
      modules.push_back(seconds_of([&] { model(tokens); }));
      programs.push_back(seconds_of([&] { program.forward({tokens}); }));
      ratios.push_back(programs.back() / modules.back());
    }
    std::cout << fmt::format("{:>8} {:>9.1f} ms {:>9.1f} ms {:>7.2f}\n", length,
                             1e3 * median(modules), 1e3 * median(programs), median(ratios));
  }
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  try {
    attend::run(argc > 1 ? std::stoll(argv[1]) : 20);
  } catch (const std::exception& error) {
    std::cerr << "bench_load_pt2: " << error.what() << "\n";
    return 1;
  }
}
