// Measures the time and the memory of an export:
//
//     bench_export torchscript|pt2|onnx static|dynamic|nodes [COUNT]
//
// With static and dynamic, the model has the size of GPT-2 124M, with COUNT blocks [12]. With
// static, forward is exported for inputs of shape (2, 16). With dynamic, batch and length may vary,
// and a TorchScript file also has methods such as generate. With nodes, the model is small, but
// forward calls about COUNT operators [15000] on inputs with a dynamic dimension.
#include "attend/model_export/export_plan.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attend {
namespace {

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

ExportPlan language_model(bool is_dynamic, int64_t layers) {
  auto plan = plan_export(
      LanguageModel(LanguageModelConfig{.vocab_size = 50257,
                                        .max_seq_len = 1024,
                                        .stack = {.num_layers = layers,
                                                  .num_heads = 12,
                                                  .embed_dim = 768,
                                                  .activation = Activation::gelu_tanh}}));
  if (!is_dynamic) {
    plan.options.dynamic.clear();
    plan.methods = {};
  }
  return plan;
}

ExportPlan many_nodes(int64_t count) {
  const torch::nn::Linear layer(8, 8);
  const auto forward = [=](const std::vector<torch::Tensor>& inputs) -> Outputs {
    auto x = inputs[0];
    for (int64_t i = 0; i < count; i += 3) {
      x = torch::relu(torch::linear(x, layer->weight, layer->bias)) + inputs[0];
    }
    return x;
  };
  return {.model = layer.ptr(),
          .forward = forward,
          .example_inputs = {torch::randn({3, 8})},
          .options = {.dynamic = {{0, 0, "batch", 1, 64}}, .tolerance = 1e-4},
          .methods = {}};
}

void run(std::string_view format, std::string_view kind, int64_t count) {
  if (kind != "static" && kind != "dynamic" && kind != "nodes") {
    throw std::runtime_error(fmt::format("expected static, dynamic or nodes, found {}", kind));
  }
  const auto plan = kind == "nodes" ? many_nodes(count > 0 ? count : 15000)
                                    : language_model(kind == "dynamic", count > 0 ? count : 12);
  double weights = 0.0;
  for (const auto& parameter : plan.model->parameters()) {
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
      format, kind, taken.count(), memory, memory / weights, weights);
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("expected a format, and static, dynamic or nodes");
    attend::run(argv[1], argv[2], argc > 3 ? std::stoll(argv[3]) : 0);
  } catch (const std::exception& error) {
    std::cerr << "bench_export: " << error.what() << "\n";
    return 1;
  }
}
