#include "export/operator_case.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <tuple>

namespace attend {
namespace {

using T = torch::Tensor;

/// `run` returns a view or copy of `x`, or mutates `x` and returns it. `dimension` is 0 for a
/// 0-dimensional tensor.
struct Operation {
  int64_t min_rank;
  T (*run)(T x, int64_t dimension);
};

constexpr std::array<Operation, 14> kViews{{
    {1, [](T x, int64_t dimension) { return x.select(dimension, 0); }},
    {1, [](T x, int64_t dimension) { return x.slice(dimension, 0, 2); }},
    {1, [](T x, int64_t dimension) { return x.narrow(dimension, 0, 1); }},
    {0, [](T x, int64_t dimension) { return x.unsqueeze(dimension); }},
    {1, [](T x, int64_t dimension) { return x.transpose(0, dimension); }},
    {1, [](T x, int64_t dimension) { return x.chunk(1, dimension)[0]; }},
    {2, [](T x, int64_t) { return x.flatten(0, 1); }},
    {0, [](T x, int64_t) { return x.flatten(); }},
    {0, [](T x, int64_t) { return x.reshape({-1}); }},
    {0, [](T x, int64_t) { return x.view_as(x); }},
    {0, [](T x, int64_t) { return x.contiguous(); }},
    {0, [](T x, int64_t) { return x.detach(); }},
    {0, [](T x, int64_t) { return x.clone(); }},
    {1, [](T x, int64_t dimension) { return x.flip(dimension); }},
}};

constexpr std::array<Operation, 7> kMutations{{
    {0, [](T x, int64_t) { return x.add_(1.5); }},
    {0, [](T x, int64_t) { return x.mul_(2); }},
    {0, [](T x, int64_t) { return x.relu_(); }},
    {0, [](T x, int64_t) { return x.sigmoid_(); }},
    {0, [](T x, int64_t) { return x.fill_(3); }},
    {0, [](T x, int64_t) { return x.masked_fill_(x > 1, 0); }},
    {0, [](T x, int64_t dimension) { return x.unsqueeze_(dimension); }},
}};

/// An operation on a tensor from a list. The list contains a copy of the input and the results of
/// the earlier steps. `tensor` modulo the length of the list is the index of the tensor.
/// `dimension` is taken modulo the number of dimensions of the tensor.
struct Step {
  Operation operation;
  std::size_t tensor;
  int64_t dimension;
};

/// Runs the steps. Then adds 1 to two of the tensors, not in place, and returns the two sums. Which
/// operators run depends only on the ranks of the tensors, not on their sizes.
Tensors run_steps(const std::vector<Step>& steps, std::size_t other, const T& x) {
  Tensors tensors{x * 1};
  for (const auto& [operation, tensor, dimension] : steps) {
    const auto& chosen = tensors[tensor % tensors.size()];
    const auto rank = chosen.dim();
    if (rank < operation.min_rank) continue;
    tensors.push_back(operation.run(chosen, rank == 0 ? 0 : dimension % rank));
  }
  return {tensors.back() + 1, tensors[other % tensors.size()] + 1};
}

std::size_t draw_below(std::size_t bound) {
  return static_cast<std::size_t>(
      torch::randint(static_cast<int64_t>(bound), {}, torch::kLong).item<int64_t>());
}

std::vector<Step> draw_steps() {
  std::vector<Step> steps;
  for (auto left = 2 + draw_below(7); left > 0; --left) {
    const bool mutates = draw_below(2) == 0;
    steps.push_back(
        {mutates ? kMutations[draw_below(kMutations.size())] : kViews[draw_below(kViews.size())],
         draw_below(60), static_cast<int64_t>(draw_below(60))});
  }
  return steps;
}

/// An operator on sequences (B, L, D). `a` and `b` are numbers from 1 to 14, or from 1 to 250 in
/// graphs of long sequences. They are usually smaller than the maximum of L. Results have at least
/// one position.
using SequenceOperator = T (*)(T x, int64_t a, int64_t b);

constexpr std::array<SequenceOperator, 27> kSequenceOperators{{
    [](T x, int64_t a, int64_t) { return x.slice(1, 0, a); },
    [](T x, int64_t a, int64_t) { return x.slice(1, -a); },
    [](T x, int64_t a, int64_t) {
      return torch::cat({x.slice(1, a), x.slice(1, 0, 1)}, 1);
    },
    [](T x, int64_t a, int64_t) {
      return torch::cat({x.slice(1, 0, -a), x.slice(1, -1)}, 1);
    },
    [](T x, int64_t a, int64_t b) {
      return torch::cat({x.slice(1, a, a + b), x.slice(1, 0, 1)}, 1);
    },
    [](T x, int64_t a, int64_t b) {
      return torch::cat({x.slice(1, 0, a), x.slice(1, -b)}, 1);
    },
    [](T x, int64_t a, int64_t b) { return x.slice(1, 0, 2 + b, 1 + a % 3); },
    [](T x, int64_t a, int64_t) { return x.roll(a, 1); },
    [](T x, int64_t, int64_t) { return x.flip(1).contiguous(); },
    [](T x, int64_t, int64_t) { return std::get<0>(x.sort(1)); },
    [](T x, int64_t, int64_t) { return x.cumsum(1).tanh(); },
    [](T x, int64_t, int64_t) { return x.softmax(1) * 3; },
    [](T x, int64_t, int64_t) { return x - x.mean(1, /*keepdim=*/true); },
    [](T x, int64_t, int64_t) { return x / (1 + x.std(1, /*unbiased=*/false, true)); },
    [](T x, int64_t, int64_t) { return x - x.amax(1, /*keepdim=*/true); },
    [](T x, int64_t, int64_t) {
      return torch::scaled_dot_product_attention(x, x, x, {}, 0.0, /*is_causal=*/true);
    },
    [](T x, int64_t, int64_t) { return torch::scaled_dot_product_attention(x, x, x); },
    [](T x, int64_t, int64_t) { return x.bmm(x.transpose(1, 2)).softmax(-1).bmm(x); },
    [](T x, int64_t a, int64_t) {
      auto y = x.clone();
      y.slice(1, 0, a).mul_(0.5);
      return y;
    },
    [](T x, int64_t a, int64_t) {
      auto y = x * 1;
      y.slice(1, -a).sigmoid_();
      return y;
    },
    [](T x, int64_t a, int64_t) { return x.masked_fill(x > 1.0 / static_cast<double>(a), 0.25); },
    [](T x, int64_t, int64_t) { return x.flatten(0, 1).sigmoid().view_as(x); },
    [](T x, int64_t, int64_t) { return x.sin() + 0.1; },
    // Sums of the positive elements: a rounding error can change whether an element near 0 is
    // selected, but this hardly changes the sum.
    [](T x, int64_t, int64_t) { return x + (x.masked_select(x > 0).sum() / 10000).tanh(); },
    [](T x, int64_t, int64_t) { return x - (x.index({x > 0}).square().sum() / 10000).sin(); },
    [](T x, int64_t a, int64_t) {
      auto mask = torch::zeros_like(x, torch::kBool);
      mask.slice(1, 0, a).copy_(x.slice(1, 0, a) > 0);
      return x * (1 + x.masked_select(mask).sum() / 10000).tanh();
    },
    [](T x, int64_t a, int64_t) { return x.size(1) > a ? x * 1 : x.cos(); },
}};

struct SequenceStep {
  std::size_t op;
  int64_t a;
  int64_t b;
};

/// Adds a dynamic size with random bounds up to `max` and returns its placeholder. The Python tests
/// compare outputs at both bounds and at three random sizes between them.
int64_t draw_dynamic_size(const char* name, int64_t max) {
  const auto least = draw_between(1, max / 2);
  const auto largest = draw_between(std::max<int64_t>(least + 1, 3), max);  // .pt2 needs >= 3
  const auto any = [&] { return draw_between(least, largest); };
  return add_dynamic_size({name, least, largest, any(), {any(), any(), any()}});
}

/// Cases of graphs with 30 random `kSequenceOperators`, in all formats. They compute in float64,
/// since some of these graphs amplify the rounding errors of float32 a thousandfold. The last
/// element of `kSequenceOperators` branches on a size. Only about one graph in eight may contain
/// it. The export must fail if the result depends on the branch.
std::vector<ExportCase> random_sequence_cases(int count) {
  struct NoParameters : torch::nn::Module {};
  std::vector<ExportCase> cases;
  for (int i = 0; i < count; ++i) {
    const bool branches = draw_below(8) == 0;
    const auto last = kSequenceOperators.size() - (branches ? 0 : 1);
    // In half of the graphs, the lengths and the numbers `a` and `b` may exceed 64. The exporter
    // verifies all sizes of a dimension only if the dimension has at most 64 sizes.
    const bool is_long = draw_below(2) == 0;
    const int64_t max_number = is_long ? 250 : 14;
    std::vector<SequenceStep> steps;
    for (int step = 0; step < 30; ++step) {
      steps.push_back({draw_below(last), draw_between(1, max_number), draw_between(1, max_number)});
    }
    const auto run = [steps](const Tensors& in) -> Outputs {
      auto x = in.at(0).sin();
      for (const auto& [op, a, b] : steps) x = kSequenceOperators[op](x, a, b);
      return x;
    };
    // The export fails with "the size of dimension ..." if the exporter's verification finds an
    // input for which the exporter's expression for a size is wrong.
    std::vector<std::string> allowed{"the size of dimension"};
    if (branches) allowed.emplace_back("a size was specialized");
    cases.push_back({.group = "RandomSequence",
                     .option = std::to_string(i),
                     .module = std::make_shared<NoParameters>(),
                     .forward = run,
                     .inputs = {reals("x", {draw_dynamic_size("batch", 9),
                                            draw_dynamic_size("length", is_long ? 700 : 40), 6})},
                     .dtype = torch::kDouble,
                     .allowed_errors = std::move(allowed)});
  }
  return cases;
}

}  // namespace

std::vector<ExportCase> random_programs(int count) {
  struct NoParameters : torch::nn::Module {};
  auto cases = random_sequence_cases(count);
  for (int i = 0; i < 100; ++i) {
    const auto run = [steps = draw_steps(), other = draw_below(60)](const Tensors& in) -> Outputs {
      return run_steps(steps, other, in.at(0));
    };
    cases.push_back({.group = "RandomViews",
                     .option = std::to_string(i),
                     .module = std::make_shared<NoParameters>(),
                     .forward = run,
                     .inputs = {floats()},
                     .formats = {"onnx"},
                     .allowed_errors = {"mutated the memory of a tensor through another view",
                                        "the number of dimensions of the traced tensor"}});
  }
  return cases;
}

}  // namespace attend
