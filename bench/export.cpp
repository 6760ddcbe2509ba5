// Measures the time and the memory of an export of a model of the size of GPT-2 124M:
//
//     bench_export torchscript|pt2|onnx static|dynamic [LAYERS]
//
// With static, forward is exported for inputs of shape (2, 16). With dynamic, batch and length may
// vary, and a TorchScript file also has methods such as generate. LAYERS: number of blocks [12].
#include "attend/model_export/export_plan.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace attend {
namespace {

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

void run(std::string_view format, std::string_view sizes, int64_t layers) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 50257,
                                          .max_seq_len = 1024,
                                          .stack = {.num_layers = layers,
                                                    .num_heads = 12,
                                                    .embed_dim = 768,
                                                    .activation = Activation::gelu_tanh}});
  auto plan = plan_export(model);
  if (sizes == "static") {
    plan.options.dynamic.clear();
    plan.methods = {};
  } else if (sizes != "dynamic") {
    throw std::runtime_error(fmt::format("expected static or dynamic, found {}", sizes));
  }
  double weights = 0.0;
  for (const auto& parameter : model->parameters()) {
    weights += static_cast<double>(parameter.nbytes()) / 1e6;
  }
  const auto path = std::filesystem::temp_directory_path() / "bench_export.file";
  const auto before = peak_megabytes();
  const auto start = std::chrono::steady_clock::now();
  if (format == "torchscript") {
    export_torchscript(plan, path);
  } else if (format == "pt2") {
    export_pt2(plan, path);
  } else if (format == "onnx") {
    export_onnx(plan, path);
  } else {
    throw std::runtime_error(fmt::format("expected torchscript, pt2 or onnx, found {}", format));
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::filesystem::remove(path);
  const auto memory = peak_megabytes() - before;
  std::cout << fmt::format(
      "{} {}: {:.1f} s, {:.0f} MB above the module = {:.2f} times the weights ({:.0f} MB)\n",
      format, sizes, taken.count(), memory, memory / weights, weights);
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("expected a format, and static or dynamic");
    attend::run(argv[1], argv[2], argc > 3 ? std::stoll(argv[3]) : 12);
  } catch (const std::exception& error) {
    std::cerr << "bench_export: " << error.what() << "\n";
    return 1;
  }
}
