// Computes forward passes in different ways ("routes"), for example with a cache or with a traced
// graph, and compares the results with the plain forward pass. Options, weights and inputs of the
// modules are random. The environment variable ATTEND_RANDOM_FORWARDS sets the number of
// comparisons.
#include "attend/nn/freezing.h"
#include "attend/ops/attention_recorder.h"
#include "attend/train/recipe_fields.h"
#include "random_forwards/draw_config.h"
#include "random_forwards/subject.h"
#include "support/block_limits.h"
#include "support/rounding.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace attend {
namespace {

/// The result of a route, and the plain forward pass in float64 that must give the same result.
struct Comparison {
  torch::Tensor found;
  Tensors leaves;  ///< parameters and inputs, which `expected` reads
  std::function<torch::Tensor()> expected;
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
  std::function<std::optional<Comparison>(const Subject&)> run;
  torch::Dtype dtype = torch::kDouble;
};

Comparison compare(const Subject& subject, const InputSizes& sizes,
                   const std::function<torch::Tensor(torch::nn::Module&, const Tensors&)>& other) {
  const auto module = subject.make(false);
  const auto inputs = subject.draw_inputs(sizes);
  const torch::NoGradGuard no_grad;
  return {other(*module, inputs), leaves_of(*module, inputs),
          [=, &subject] { return subject.run(*module, inputs); }};
}

std::optional<Comparison> with_weights(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const AttentionRecorder recorder;
    return subject.run(module, inputs);
  });
}

/// Computes the gradients of two calls with the same inputs. `make_scope` returns an object that
/// exists during the second forward and backward pass.
template <typename MakeScope>
std::optional<Comparison> compare_gradients(const Subject& subject, const MakeScope& make_scope) {
  // Changes of the inputs do not show the errors of terms that cancel out.
  if (subject.normalizes_two_channels) return std::nullopt;
  const auto module = subject.make(false);
  const auto inputs = subject.draw_inputs(draw_sizes(0));
  const auto run = [=, &subject] {
    return gradients(subject.run(*module, inputs), module->parameters());
  };
  [[maybe_unused]] const auto scope = make_scope();
  return Comparison{run(), leaves_of(*module, inputs), run};
}

std::optional<Comparison> gradients_with_weights(const Subject& subject) {
  return compare_gradients(subject, [] { return AttentionRecorder(); });
}

/// Returns a guard. While it exists, attention is computed in blocks for sequences of all lengths,
/// not only for long sequences.
BlockLimitsGuard small_blocks() {
  return BlockLimitsGuard({.min_queries_with_window = 1, .min_queries = 1, .rows = draw(1, 4)});
}

std::optional<Comparison> in_blocks(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const auto limits = small_blocks();
    return subject.run(module, inputs);
  });
}

std::optional<Comparison> gradients_in_blocks(const Subject& subject) {
  return compare_gradients(subject, small_blocks);
}

std::optional<Comparison> strided(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    return subject.run(
        module, map(inputs, [](const auto& x) {
          return torch::stack({x, x}, -1).select(-1, 0);  // the last dimension has stride 2
        }));
  });
}

std::optional<Comparison> unbatched(const Subject& subject) {
  auto sizes = draw_sizes(1);
  sizes.batch = 1;
  return compare(subject, sizes, [&](auto& module, const Tensors& inputs) {
    return subject.run(module, map(inputs, [](const auto& x) { return x.squeeze(0); }))
        .unsqueeze(0);
  });
}

std::optional<Comparison> row_by_row(const Subject& subject) {
  return compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    Tensors rows;
    for (int64_t i = 0; i < inputs[0].size(0); ++i) {
      rows.push_back(
          subject.run(module, map(inputs, [&](const auto& x) { return x.narrow(0, i, 1); })));
    }
    return torch::cat(rows);
  });
}

std::optional<Comparison> with_grad_mode(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const torch::AutoGradMode enable_grad(true);
    return subject.run(module, inputs).detach();
  });
}

std::optional<Comparison> in_float32(const Subject& subject) {
  if (subject.is_discontinuous) return std::nullopt;
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    const auto copy = module.clone();
    copy->to(torch::kFloat);
    return subject.run(*copy, to_dtype(inputs, torch::kFloat)).to(torch::kDouble);
  });
}

std::optional<Comparison> cloned(const Subject& subject) {
  return compare(subject, draw_sizes(0), [&](auto& module, const Tensors& inputs) {
    return subject.run(*module.clone(), inputs);
  });
}

std::optional<Comparison> layer_by_layer(const Subject& subject) {
  if (!subject.run_layers) return std::nullopt;
  return compare(subject, draw_sizes(0), subject.run_layers);
}

std::optional<Comparison> cached(const Subject& subject) {
  if (!subject.run_cached) return std::nullopt;
  return compare(subject, draw_sizes(1), subject.run_cached);
}

std::optional<Comparison> cached_ragged(const Subject& subject) {
  if (!subject.run_cached_ragged) return std::nullopt;
  return compare(subject, draw_sizes(1), subject.run_cached_ragged);
}

std::optional<Comparison> padded(const Subject& subject) {
  if (!subject.pad) return std::nullopt;
  return compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    const auto y = subject.run(module, subject.pad(inputs, draw(1, 3)));
    const bool per_token = y.dim() == 3;
    return per_token ? y.narrow(1, 0, inputs[0].size(1)) : y;
  });
}

std::optional<Comparison> checkpointed(const Subject& subject) {
  if (!subject.has_checkpointing) return std::nullopt;
  const auto inputs = subject.draw_inputs(draw_sizes(1));
  Tensors learned;  // hidden states and float masks
  for (const auto& input : inputs) {
    if (input.defined() && input.is_floating_point()) learned.push_back(input.requires_grad_());
  }
  const int64_t block_rows = draw_chance(50) ? draw(1, 4) : 0;
  const auto plain = subject.make(false), with_checkpoints = subject.make(true);
  const auto train = [=, &subject](const std::shared_ptr<torch::nn::Module>& module) {
    std::optional<BlockLimitsGuard> limits;
    if (block_rows > 0) limits.emplace(BlockLimits{1, 1, block_rows});
    module->train();
    torch::manual_seed(3);  // for dropout
    const auto output = subject.run(*module, inputs);
    return torch::cat({output.detach().flatten(), gradients(output, leaves_of(*module, learned))});
  };
  return Comparison{train(with_checkpoints), leaves_of(*plain, learned),
                    [=] { return train(plain); }};
}

std::optional<Comparison> traced(const Subject& subject) {
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
  return Comparison{function(defined(inputs)), leaves_of(*module, inputs),
                    [=, &subject] { return subject.run(*module, inputs); }};
}

/// Compares `run` in autocast to bf16 with the plain forward pass.
Comparison compare_autocast(
    const Subject& subject,
    const std::function<torch::Tensor(torch::nn::Module&, const Tensors&)>& run) {
  return compare(subject, draw_sizes(1), [&](auto& module, const Tensors& inputs) {
    const auto copy = module.clone();
    copy->to(torch::kFloat);
    const CpuAutocast bf16;
    return run(*copy, to_dtype(inputs, torch::kFloat)).to(torch::kDouble);
  });
}

std::optional<Comparison> autocast(const Subject& subject) {
  if (subject.is_discontinuous) return std::nullopt;
  return compare_autocast(subject, subject.run);
}

std::optional<Comparison> autocast_cached(const Subject& subject) {
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
                                      {"in_float32", in_float32, torch::kFloat},
                                      {"cloned", cloned},
                                      {"layer_by_layer", layer_by_layer},
                                      {"cached", cached},
                                      {"cached_ragged", cached_ragged},
                                      {"padded", padded},
                                      {"checkpointed", checkpointed},
                                      {"traced", traced},
                                      {"autocast", autocast, torch::kBFloat16},
                                      {"autocast_cached", autocast_cached, torch::kBFloat16}};
  return all;
}

const Route& draw_route() {
  return routes()[static_cast<std::size_t>(draw(0, static_cast<int64_t>(routes().size()) - 1))];
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
      const auto comparison = route.run(subject);
      if (!comparison) continue;
      const auto& [found, leaves, expected] = *comparison;
      result = within_rounding(found, leaves, expected, {.dtype = route.dtype});
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
