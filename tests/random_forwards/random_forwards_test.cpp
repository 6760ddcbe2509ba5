// Computes forward passes in different ways ("routes"), for example with a cache or with a traced
// graph, and compares the results with the plain forward pass. Options, weights and inputs of the
// modules are random. The environment variable ATTEND_RANDOM_FORWARDS sets the number of
// comparisons.
#include "attend/nn/freezing.h"
#include "attend/ops/attention_recorder.h"
#include "random_forwards/draw_config.h"
#include "random_forwards/subject.h"
#include "support/block_limits.h"
#include "support/close.h"
#include "train/recipe_fields.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace attend {
namespace {

/// The result of a route and the result of the plain forward pass. Both must be equal within the
/// tolerance of the route and the given effect of rounding.
struct Pair {
  torch::Tensor actual;
  torch::Tensor expected;
  double rounding = 0.0;  ///< norm of the change of the result that rounding may cause
};

InputSizes draw_sizes(int64_t min_batch, int64_t min_tokens = 1) {
  return {draw(min_batch, 3), draw(min_tokens, 7), draw(min_tokens, 7)};
}

Tensors map(const Tensors& inputs,
            const std::function<torch::Tensor(const torch::Tensor&)>& change) {
  Tensors changed;
  for (const auto& input : inputs) changed.push_back(input.defined() ? change(input) : input);
  return changed;
}

Tensors to_dtype(const Tensors& inputs, torch::Dtype dtype) {
  return map(inputs, [=](const auto& x) { return x.is_floating_point() ? x.to(dtype) : x; });
}

struct CpuAutocast {
  CpuAutocast() { at::autocast::set_autocast_enabled(at::kCPU, true); }
  ~CpuAutocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

/// Returns the gradients of a loss with respect to `leaves`, flattened and concatenated. The loss
/// is the sum of the elements of `output`, each multiplied by a random number. These numbers are
/// the same in each call.
torch::Tensor gradients(const torch::Tensor& output, const Tensors& leaves) {
  torch::manual_seed(7);
  const auto loss = (output * torch::randn(output.sizes(), output.options())).sum();
  if (!loss.requires_grad()) return torch::zeros({0}, torch::kDouble);
  Tensors flat;
  const auto grads =
      torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    flat.push_back((grads[i].defined() ? grads[i] : torch::zeros_like(leaves[i])).flatten());
  }
  return torch::cat(flat);
}

/// A way to compute a forward pass. `run` returns std::nullopt if the subject does not support this
/// way.
struct Route {
  const char* name;
  std::function<std::optional<Pair>(const Subject&)> run;
  double tolerance = 1e-9;  ///< relative to 1 + the norm of the plain result
};

Pair compare(const Subject& subject, const InputSizes& sizes,
             const std::function<torch::Tensor(torch::nn::Module&, const Tensors&)>& other) {
  const auto module = subject.make(false);
  const auto inputs = subject.draw_inputs(sizes);
  const torch::NoGradGuard no_grad;
  const auto expected = subject.run(*module, inputs);
  return {other(*module, inputs), expected};
}

std::optional<Pair> with_weights(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const AttentionRecorder recorder;
    return subject.run(module, inputs);
  });
}

/// Computes the gradients of two calls with the same inputs. `make_scope` returns an object that
/// exists during the second forward and backward pass.
template <typename MakeScope>
Pair compare_gradients(const Subject& subject, const MakeScope& make_scope) {
  const auto module = subject.make(false);
  const auto inputs = subject.draw_inputs(draw_sizes(0));
  const auto leaves = module->parameters();
  const auto expected = gradients(subject.run(*module, inputs), leaves);
  [[maybe_unused]] const auto scope = make_scope();
  return Pair{gradients(subject.run(*module, inputs), leaves), expected};
}

std::optional<Pair> gradients_with_weights(const Subject& subject) {
  return compare_gradients(subject, [] { return AttentionRecorder(); });
}

/// Returns a guard. While it exists, attention is computed in blocks for sequences of all lengths,
/// not only for long sequences.
BlockLimitsGuard small_blocks() {
  return BlockLimitsGuard({.min_queries_with_window = 1, .min_queries = 1, .rows = draw(1, 4)});
}

std::optional<Pair> in_blocks(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const auto limits = small_blocks();
    return subject.run(module, inputs);
  });
}

std::optional<Pair> gradients_in_blocks(const Subject& subject) {
  return compare_gradients(subject, small_blocks);
}

std::optional<Pair> strided(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    return subject.run(
        module, map(inputs, [](const auto& x) {
          return torch::stack({x, x}, -1).select(-1, 0);  // the last dimension has stride 2
        }));
  });
}

std::optional<Pair> unbatched(const Subject& subject) {
  auto sizes = draw_sizes(1);
  sizes.batch = 1;
  return compare(subject, sizes, [&](auto& module, const Tensors& inputs) {
    return subject.run(module, map(inputs, [](const auto& x) { return x.squeeze(0); }))
        .unsqueeze(0);
  });
}

std::optional<Pair> row_by_row(const Subject& subject) {
  return compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    Tensors rows;
    for (int64_t i = 0; i < inputs[0].size(0); ++i) {
      rows.push_back(
          subject.run(module, map(inputs, [&](const auto& x) { return x.narrow(0, i, 1); })));
    }
    return torch::cat(rows);
  });
}

std::optional<Pair> with_grad_mode(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const torch::AutoGradMode enable_grad(true);
    return subject.run(module, inputs).detach();
  });
}

std::optional<Pair> in_float32(const Subject& subject) {
  if (subject.is_discontinuous) return std::nullopt;
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const auto copy = module.clone();
    copy->to(torch::kFloat);
    return subject.run(*copy, to_dtype(inputs, torch::kFloat)).to(torch::kDouble);
  });
}

std::optional<Pair> cloned(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    return subject.run(*module.clone(), inputs);
  });
}

std::optional<Pair> layer_by_layer(const Subject& subject) {
  if (!subject.run_layers) return std::nullopt;
  return compare(subject, draw_sizes(0), subject.run_layers);
}

std::optional<Pair> cached(const Subject& subject) {
  if (!subject.run_cached) return std::nullopt;
  return compare(subject, draw_sizes(1), subject.run_cached);
}

std::optional<Pair> cached_ragged(const Subject& subject) {
  if (!subject.run_cached_ragged) return std::nullopt;
  return compare(subject, draw_sizes(1), subject.run_cached_ragged);
}

std::optional<Pair> padded(const Subject& subject) {
  if (!subject.pad) return std::nullopt;
  return compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    const auto y = subject.run(module, subject.pad(inputs, draw(1, 3)));
    const bool per_token = y.dim() == 3;
    return per_token ? y.narrow(1, 0, inputs[0].size(1)) : y;
  });
}

std::optional<Pair> checkpointed(const Subject& subject) {
  if (!subject.has_checkpointing) return std::nullopt;
  const auto inputs = subject.draw_inputs(draw_sizes(1));
  Tensors learned;  // hidden states and float masks
  for (const auto& input : inputs) {
    if (input.defined() && input.is_floating_point()) learned.push_back(input.requires_grad_());
  }
  std::optional<BlockLimitsGuard> limits;
  if (draw_chance(50)) limits.emplace(BlockLimits{1, 1, draw(1, 4)});
  const auto train = [&](bool gradient_checkpointing) {
    const auto module = subject.make(gradient_checkpointing);
    module->train();
    auto leaves = module->parameters();
    leaves.insert(leaves.end(), learned.begin(), learned.end());
    torch::manual_seed(3);  // for dropout
    const auto output = subject.run(*module, inputs);
    return torch::cat({output.detach().flatten(), gradients(output, leaves)});
  };
  return Pair{train(true), train(false)};
}

std::optional<Pair> traced(const Subject& subject) {
  const auto example = subject.draw_inputs(draw_sizes(2, 2));
  const auto module = subject.make(false);
  freeze(*module);
  // Undefined arguments are not inputs of the graph.
  const auto defined = [](const Tensors& inputs) {
    Tensors some;
    for (const auto& input : inputs) {
      if (input.defined()) some.push_back(input);
    }
    return some;
  };
  const auto function = trace(
      [&](const Tensors& some) {
        Tensors all = example;
        auto next = some.begin();
        for (auto& input : all) {
          if (input.defined()) input = *next++;
        }
        return subject.run(*module, all);
      },
      defined(example));
  const auto inputs = subject.draw_inputs(draw_sizes(1));
  const torch::NoGradGuard no_grad;
  return Pair{function(defined(inputs)), subject.run(*module, inputs)};
}

/// Compares `run` in autocast to bf16 with the plain forward pass. How much rounding changes a
/// result depends on the weights: a norm, for example, enlarges small differences of almost equal
/// hidden states. Therefore this also changes weights and inputs as rounding to bf16 does, by at
/// most 2^-8 of each number, and measures in float64 how much the result changes.
Pair compare_autocast(const Subject& subject,
                      const std::function<torch::Tensor(torch::nn::Module&, const Tensors&)>& run) {
  double rounding = 0.0;
  auto pair = compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    const auto plain = subject.run(module, inputs);
    const auto change = [](const auto& x) {
      return x.is_floating_point() ? x * (1 + std::ldexp(1.0, -8) * (2 * torch::rand_like(x) - 1))
                                   : x;
    };
    for (int i = 0; i < 4; ++i) {
      const auto changed = module.clone();
      for (auto& weight : changed->parameters()) weight.copy_(change(weight));
      const auto difference = subject.run(*changed, map(inputs, change)) - plain;
      rounding = std::max(rounding, difference.norm().template item<double>());
    }
    const auto copy = module.clone();
    copy->to(torch::kFloat);
    const CpuAutocast bf16;
    return run(*copy, to_dtype(inputs, torch::kFloat)).to(torch::kDouble);
  });
  pair.rounding = rounding;
  return pair;
}

std::optional<Pair> autocast(const Subject& subject) {
  if (subject.is_discontinuous) return std::nullopt;
  return compare_autocast(subject, subject.run);
}

std::optional<Pair> autocast_cached(const Subject& subject) {
  if (subject.is_discontinuous || !subject.run_cached) return std::nullopt;
  return compare_autocast(subject, subject.run_cached);
}

const std::vector<Route>& routes() {
  static const std::vector<Route> all{{"with_weights", with_weights},
                                      {"gradients_with_weights", gradients_with_weights},
                                      {"in_blocks", in_blocks},
                                      {"gradients_in_blocks", gradients_in_blocks},
                                      {"strided", strided},
                                      {"unbatched", unbatched},
                                      {"row_by_row", row_by_row},
                                      {"with_grad_mode", with_grad_mode},
                                      {"in_float32", in_float32, 1e-3},
                                      {"cloned", cloned},
                                      {"layer_by_layer", layer_by_layer},
                                      {"cached", cached},
                                      {"cached_ragged", cached_ragged},
                                      {"padded", padded},
                                      {"checkpointed", checkpointed},
                                      {"traced", traced},
                                      {"autocast", autocast, 0.01},
                                      {"autocast_cached", autocast_cached, 0.01}};
  return all;
}

const Route& draw_route() {
  return routes()[static_cast<std::size_t>(draw(0, static_cast<int64_t>(routes().size()) - 1))];
}

/// Succeeds if the norm of the difference is at most `tolerance` times (1 + the norm of the plain
/// result) plus four times the effect of rounding.
testing::AssertionResult agree(const Pair& pair, double tolerance) {
  const auto& [actual, expected, rounding] = pair;
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure()
           << "found sizes " << actual.sizes() << ", expected " << expected.sizes();
  }
  const auto difference = (actual - expected).norm().item<double>();
  const auto norm = expected.norm().item<double>();
  if (difference <= tolerance * (norm + 1) + 4 * rounding) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "norm of the difference " << difference << ", norm of the plain result " << norm;
}

TEST(RandomForwards, RoutesAgree) {
  const char* text = std::getenv("ATTEND_RANDOM_FORWARDS");
  const int64_t count = text == nullptr ? 500 : std::atoll(text);
  const auto seed = seed_afresh();
  std::map<std::string, int64_t> compared, failed;
  int64_t total = 0;
  for (uint64_t i = 0; total < count; ++i) {
    torch::manual_seed(seed + i);
    const auto subject = draw_subject();
    const auto& route = draw_route();
    testing::AssertionResult result = testing::AssertionFailure();
    try {
      const auto pair = route.run(subject);
      if (!pair) continue;
      result = agree(*pair, route.tolerance);
    } catch (const c10::Error& error) {
      result << error.what_without_backtrace();
    }
    ++compared[route.name];
    ++total;
    if (result) continue;
    // Reports at most 5 failures per route.
    if (++failed[route.name] > 5) continue;
    ADD_FAILURE() << route.name << " of " << subject.description << "\n  " << result.message()
                  << "\n  repeat with ATTEND_RANDOM_FORWARDS=1 ATTEND_TEST_SEED=" << seed + i;
  }
  for (const auto& [name, times] : compared) {
    std::cout << name << ": " << times << " compared, " << failed[name] << " failed\n";
  }
  std::cout << total << " forward passes compared\n";
}

// Fails if an option of a model always has the same value, for example because draw_model_config
// does not draw a new option.
TEST(RandomForwards, DrawEachOption) {
  torch::manual_seed(1);
  std::map<std::string, std::set<std::string>> values;
  for (int i = 0; i < 500; ++i) {
    train::Recipe recipe;
    recipe.model = draw_model_config();
    for (const auto& field : train::recipe_fields()) {
      const auto text = value_text(field, recipe);
      if (std::string(field.section) == "model" && !text.empty()) values[field.key].insert(text);
    }
  }
  // draw_model_config does not draw these options: draw_subject or a route sets them, or they are
  // fixed.
  for (const char* key : {"dropout", "stochastic_depth", "gradient_checkpointing", "max_seq_len"}) {
    values.erase(key);
  }
  for (const auto& [key, texts] : values)
    EXPECT_GT(texts.size(), 1U) << key << " is always the same";
}

}  // namespace
}  // namespace attend
