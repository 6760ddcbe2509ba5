// Compares the time of a forward pass with the time of the program that `load_pt2` loads from the
// .pt2 archive of the module:
//
//     bench_load_pt2 [ROUNDS] [gpt2|chain]
//
// First, two models of the size of GPT-2 124M, for several inputs: one of attend, and one that
// calls LibTorch's operators. Then a chain of operators on small tensors, which measures the time
// that a node takes besides the computation: called from C++, called through the dispatcher with
// boxed arguments, and run by `load_pt2`. All sides first compute the same outputs, and are then
// called in turns. Prints the medians and the median of the ratios.
#include "attend/export/pt2.h"
#include "attend/model_export/export_plan.h"
#include "attend/models/language_model.h"
#include "attend/pt2/pt2_program.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/torch.h>

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

/// An operator of the chain: its first argument is the output of the previous operator.
struct Call {
  const char* name;
  const char* overload;
  std::vector<c10::IValue> more_arguments;
  std::function<torch::Tensor(const torch::Tensor&)> call;
};

std::vector<Call> calls_on(int64_t rows, int64_t columns) {
  const auto matrix = torch::randn({columns, columns});
  const auto vector = torch::randn({columns});
  const std::vector<int64_t> shape{rows, columns};
  return {
      {"aten::layer_norm",
       "",
       {std::vector{columns}, vector, vector, 1e-5, true},
       [=](const auto& x) { return torch::layer_norm(x, {columns}, vector, vector, 1e-5, true); }},
      {"aten::matmul", "", {matrix}, [=](const auto& x) { return x.matmul(matrix); }},
      {"aten::add", "Tensor", {vector, 1}, [=](const auto& x) { return x + vector; }},
      {"aten::transpose", "int", {0, 1}, [](const auto& x) { return x.transpose(0, 1); }},
      {"aten::transpose", "int", {0, 1}, [](const auto& x) { return x.transpose(0, 1); }},
      {"aten::softmax", "int", {-1, c10::IValue()}, [](const auto& x) { return x.softmax(-1); }},
      {"aten::view", "", {shape}, [=](const auto& x) { return x.view(shape); }},
      {"aten::mul", "Tensor", {vector}, [=](const auto& x) { return x * vector; }},
      {"aten::gelu", "", {"none"}, [](const auto& x) { return torch::gelu(x); }},
      {"aten::slice",
       "Tensor",
       {0, 0, rows, 1},
       [=](const auto& x) { return x.slice(0, 0, rows); }},
  };
}

void run_chain(int64_t rounds) {
  constexpr int64_t kRepeats = 50;  // of the operators in the chain
  std::cout << fmt::format("\n{:>8} {:>15} {:>15} {:>15} {:>16} {:>17}\n", "shape", "C++", "boxed",
                           "load_pt2", "load_pt2 / C++", "load_pt2 / boxed");
  for (const int64_t columns : {8, 64}) {
    const auto calls = calls_on(4, columns);
    const auto x = torch::randn({4, columns});
    const auto chain = [&](torch::Tensor y) {
      for (int64_t i = 0; i < kRepeats; ++i) {
        for (const auto& call : calls) y = call.call(y);
      }
      return y;
    };
    std::vector<c10::OperatorHandle> handles;
    for (const auto& call : calls) {
      handles.push_back(c10::Dispatcher::singleton().findSchemaOrThrow(call.name, call.overload));
    }
    const auto boxed = [&](torch::Tensor y) {
      torch::jit::Stack stack;
      for (int64_t i = 0; i < kRepeats; ++i) {
        for (std::size_t j = 0; j < calls.size(); ++j) {
          stack.clear();
          stack.emplace_back(std::move(y));
          stack.insert(stack.end(), calls[j].more_arguments.begin(), calls[j].more_arguments.end());
          handles[j].callBoxed(stack);
          y = std::move(stack.front()).toTensor();
        }
      }
      return y;
    };
    torch::nn::Module module;
    const auto path = std::filesystem::temp_directory_path() / "bench_load_pt2.pt2";
    export_pt2(module, [&](const auto& in) { return std::vector{chain(in[0])}; }, {x}, path, {});
    const auto program = load_pt2(path);
    std::filesystem::remove(path);
    const auto expected = chain(x);
    if (!boxed(x).equal(expected) || !program.forward({x}).front().equal(expected)) {
      throw std::runtime_error("the outputs of the chain differ");
    }
    const auto nodes = static_cast<double>(kRepeats) * static_cast<double>(calls.size());
    const auto microseconds = [&](const std::function<void()>& work) {
      return 1e6 * seconds_of(work) / nodes;
    };
    std::vector<double> direct, through_dispatcher, loaded, to_direct, to_boxed;
    for (int64_t i = 0; i < 20 * rounds; ++i) {
      direct.push_back(microseconds([&] { chain(x); }));
      through_dispatcher.push_back(microseconds([&] { boxed(x); }));
      loaded.push_back(microseconds([&] { program.forward({x}); }));
      to_direct.push_back(loaded.back() / direct.back());
      to_boxed.push_back(loaded.back() / through_dispatcher.back());
    }
    std::cout << fmt::format(
        "{:>8} {:>7.3f} us/node {:>7.3f} us/node {:>7.3f} us/node {:>16.3f} {:>17.3f}\n",
        fmt::format("4 x {}", columns), median(direct), median(through_dispatcher), median(loaded),
        median(to_direct), median(to_boxed));
  }
}

/// GPT-2 124M, written with LibTorch's functions.
struct PlainGpt2Impl : torch::nn::Module {
  static constexpr int64_t kLayers = 12, kHeads = 12, kWidth = 768, kVocab = 50257, kLength = 1024;

  torch::Tensor weight(std::vector<int64_t> shape) {
    return register_parameter(fmt::format("weight{}", parameters().size()),
                              0.02 * torch::randn(shape));
  }
  torch::Tensor norm(const torch::Tensor& x, std::size_t at) const {
    return torch::layer_norm(x, {kWidth}, weights[at], weights[at + 1]);
  }
  torch::Tensor linear(const torch::Tensor& x, std::size_t at) const {
    return torch::linear(x, weights[at], weights[at + 1]);
  }

  PlainGpt2Impl() {
    for (int64_t i = 0; i < kLayers; ++i) {
      for (const auto& [rows, columns] :
           {std::pair{3 * kWidth, kWidth}, std::pair{kWidth, kWidth}, std::pair{4 * kWidth, kWidth},
            std::pair{kWidth, 4 * kWidth}}) {
        weights.push_back(weight({rows, columns}));
        weights.push_back(weight({rows}));
      }
      for (int j = 0; j < 4; ++j) weights.push_back(weight({kWidth}));
    }
    for (int j = 0; j < 2; ++j) weights.push_back(weight({kWidth}));
  }

  torch::Tensor forward(const torch::Tensor& ids) {  // (B, T)
    const auto places = torch::arange(ids.size(1), ids.options());
    auto x = torch::embedding(tokens, ids) + torch::embedding(positions, places);
    for (std::size_t at = 0; at < 12 * kLayers; at += 12) {
      const auto heads = linear(norm(x, at + 8), at).unflatten(-1, {3, kHeads, -1});
      const auto qkv = heads.permute({2, 0, 3, 1, 4}).unbind();  // (B, H, T, D)
      const auto y = torch::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true);
      x = x + linear(y.transpose(1, 2).flatten(2), at + 2);
      x = x + linear(torch::gelu(linear(norm(x, at + 10), at + 4), "tanh"), at + 6);
    }
    return torch::linear(norm(x, 12 * kLayers), tokens);  // (B, T, V)
  }

  torch::Tensor tokens = weight({kVocab, kWidth});
  torch::Tensor positions = weight({kLength, kWidth});
  std::vector<torch::Tensor> weights;
};
TORCH_MODULE(PlainGpt2);

void compare(const char* name, const std::function<torch::Tensor(const torch::Tensor&)>& module,
             const Pt2Program& program, int64_t rounds) {
  std::cout << fmt::format("{}\n{:>8} {:>12} {:>12} {:>7}\n", name, "tokens", "module", "load_pt2",
                           "ratio");
  for (const int64_t length : {1, 16, 128, 512}) {
    const auto tokens = torch::randint(50257, {1, length}, torch::kLong);
    const auto difference =
        (program.forward({tokens}).front() - module(tokens)).abs().max().item<double>();
    if (!(difference < 1e-3)) {
      throw std::runtime_error(fmt::format("the logits differ by {}", difference));
    }
    std::vector<double> modules;
    std::vector<double> programs;
    std::vector<double> ratios;
    for (int64_t i = 0; i < rounds; ++i) {
      modules.push_back(seconds_of([&] { module(tokens); }));
      programs.push_back(seconds_of([&] { program.forward({tokens}); }));
      ratios.push_back(programs.back() / modules.back());
    }
    std::cout << fmt::format("{:>8} {:>9.1f} ms {:>9.1f} ms {:>7.3f}\n", length,
                             1e3 * median(modules), 1e3 * median(programs), median(ratios));
  }
}

void run_gpt2(int64_t rounds) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 50257,
                                          .max_seq_len = 1024,
                                          .stack = {.num_layers = 12,
                                                    .num_heads = 12,
                                                    .embed_dim = 768,
                                                    .activation = Activation::gelu_tanh}});
  model->eval();
  const auto path = std::filesystem::temp_directory_path() / "bench_load_pt2.pt2";
  export_pt2(plan_export(model), path);
  compare(
      "attend::LanguageModel", [&](const auto& tokens) { return model(tokens); }, load_pt2(path),
      rounds);
  PlainGpt2 plain;
  export_pt2(plain, torch::randint(50257, {1, 16}, torch::kLong), path,
             {.dynamic = {{0, 1, "length", 1, 1024}}});
  compare(
      "operators of LibTorch", [&](const auto& tokens) { return plain->forward(tokens); },
      load_pt2(path), rounds);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  try {
    const torch::NoGradGuard no_grad;
    const auto rounds = argc > 1 ? std::stoll(argv[1]) : 20;
    const std::string part = argc > 2 ? argv[2] : "";
    if (part.empty() || part == "gpt2") attend::run_gpt2(rounds);
    if (part.empty() || part == "chain") attend::run_chain(rounds);
  } catch (const std::exception& error) {
    std::cerr << "bench_load_pt2: " << error.what() << "\n";
    return 1;
  }
}
