#include "ops/block_attention.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"
#include "ops/args_tensors.h"
#include "ops/attention_call.h"
#include "ops/attention_checks.h"
#include "ops/double_backward.h"
#include "ops/fast_kernels.h"
#include "ops/prepared_mask.h"
#include "ops/query_blocks.h"
#include "ops/rng_state.h"

#include <ATen/OpMathType.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_token_masks(const AttentionArgs& args) {
  return args.mask.defined() || args.key_mask.defined() || args.segments.defined() ||
         args.positions.defined();
}

torch::Tensor with_four_dimensions(torch::Tensor x) {
  while (x.defined() && x.dim() < 4) x = x.unsqueeze(0);
  return x;
}

/// Returns the attention output of one block. Inputs with fewer than four dimensions get leading
/// dimensions of size 1, because the fused kernels need four dimensions.
torch::Tensor attend_block(const BlockInputs& block, const PreparedMask& mask,
                           ScoreOptions options) {
  options.sinks = block.sinks;
  const PreparedMask wide_mask{.mask = with_four_dimensions(mask.mask),
                               .fully_masked_rows = with_four_dimensions(mask.fully_masked_rows)};
  auto output =
      attention_with_mask(with_four_dimensions(block.query), with_four_dimensions(block.key),
                          with_four_dimensions(block.value), wide_mask, {}, options)
          .output;
  while (output.dim() > block.query.dim()) output = output.squeeze(0);
  return output;
}

/// The data that all blocks of an `attend_in_blocks` call share, in addition to the `BlockInputs`.
struct BlockAttention : torch::CustomClassHolder {
  AttentionArgs args;
  ScoreOptions options;        // without sinks, which BlockInputs contains
  int64_t rows = 0;            // number of queries per block
  bool may_mask_rows = false;  // the mask may have fully masked rows
  RngState rng;                // states before dropout, for the backward pass; empty = not needed

  /// Returns the sum of masks and bias for each offset (key position - query position), of shape
  /// (H, S + T - 1) or (1, S + T - 1). Returns an undefined tensor if the call has no mask and no
  /// bias, if a mask depends on more than the offset, or if rows may be fully masked.
  torch::Tensor mask_by_offset(const BlockInputs& inputs) const {
    const bool any = args.causal || args.sliding_window > 0 || inputs.offset_bias.defined();
    if (!any || has_token_masks(args) || may_mask_rows) return {};
    const auto offsets = all_offsets(inputs.query, inputs.key);
    auto excluded = torch::zeros_like(offsets, torch::kBool);
    if (args.causal) excluded = offsets > 0;
    if (args.sliding_window > 0) {
      excluded = excluded.logical_or(offsets.abs() >= args.sliding_window);
    }
    const auto bias = inputs.offset_bias.defined()
                          ? inputs.offset_bias
                          : torch::zeros({1, offsets.size(0)}, inputs.query.options());
    return bias.masked_fill(excluded, -INFINITY).to(inputs.query.scalar_type());
  }

  /// Returns the output (..., rows, Dv) of a block. `sliced`: the block's queries, keys and values,
  /// with all sinks and biases. `inputs`: the inputs of the call. `by_offset`:
  /// `mask_by_offset(inputs)`.
  torch::Tensor run(BlockInputs sliced, const QueryBlock& block, const BlockInputs& inputs,
                    const torch::Tensor& by_offset) const {
    if (block.keys == 0) {
      auto shape = at::infer_size(scores_shape(sliced.query, sliced.key),
                                  scores_shape(sliced.query, sliced.value));
      shape.back() = sliced.value.size(-1);
      return torch::zeros(shape, sliced.query.options());
    }
    const int64_t queries = inputs.query.size(-2);
    if (by_offset.defined()) {
      sliced.query = sliced.query.flip(-2);
      auto mask = reversed_biases(by_offset, block, queries);
      // CUDA's kernels need a mask whose rows start at aligned addresses. In this view, each row
      // starts one element after the previous row, so the view is copied.
      if (!mask.is_cpu()) mask = mask.contiguous();
      return attend_block(sliced, {.mask = mask}, options).flip(-2);
    }
    const auto block_args = slice_args(args, block, inputs);
    auto mask = finish_mask(attention_mask(sliced.query, sliced.key, block_args), sliced.query,
                            may_mask_rows);
    if (sliced.offset_bias.defined()) {
      mask = add_bias(mask, reversed_biases(sliced.offset_bias, block, queries).flip(-2),
                      sliced.query);
    }
    return attend_block(sliced, mask, options);
  }

  /// Calls `function(block)` for each block, without autocast.
  template <typename Function>
  void for_each_block(const BlockInputs& inputs, const Function& function) const {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    for (const auto& block : query_blocks(inputs, args, rows)) function(block);
  }
};

torch::Tensor forward_blocks(const BlockAttention& attention, const BlockInputs& inputs) {
  std::vector<torch::Tensor> outputs;
  const auto by_offset = attention.mask_by_offset(inputs);
  attention.for_each_block(inputs, [&](const QueryBlock& block) {
    outputs.push_back(attention.run(slice_inputs(inputs, block), block, inputs, by_offset));
  });
  return torch::cat(outputs, -2);
}

struct BlockAttentionFunction : torch::autograd::Function<BlockAttentionFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& query,
                               const torch::Tensor& key, const torch::Tensor& value,
                               const std::optional<torch::Tensor>& sinks,
                               const std::optional<torch::Tensor>& offset_bias,
                               const c10::intrusive_ptr<BlockAttention>& attention) {
    BlockInputs inputs{query, key, value, sinks.value_or(torch::Tensor()),
                       offset_bias.value_or(torch::Tensor())};
    variable_list saved;
    for (const auto member : kBlockInputs) {
      auto& input = inputs.*member;
      saved.push_back(input);
      if (input.defined()) input = input.detach();
    }
    // The tensors of `args` get no gradient. They are saved so that autograd detects in-place
    // changes.
    for (const auto tensor : kArgsTensors) saved.push_back(attention->args.*tensor);
    context->save_for_backward(saved);
    context->saved_data["attention"] = c10::IValue::make_capsule(attention);
    return forward_blocks(*attention, inputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const auto attention = c10::static_intrusive_pointer_cast<BlockAttention>(
        context->saved_data["attention"].toCapsule());
    const AttentionRecorderPause recorder_pause;
    const RngGuard rng(attention->rng);
    if (torch::GradMode::is_enabled()) {  // takes memory for the weights of all blocks
      const auto forward = [&](const variable_list& tensors) {
        BlockInputs inputs;
        for (std::size_t i = 0; i < kBlockInputs.size(); ++i) inputs.*kBlockInputs[i] = tensors[i];
        return forward_blocks(*attention, inputs);
      };
      auto gradients = differentiable_gradients(
          {saved.begin(), saved.begin() + kBlockInputs.size()}, forward, output_gradients[0]);
      gradients.emplace_back();  // the argument `attention` has no gradient
      return gradients;
    }
    BlockInputs inputs;
    BlockInputs sums;      // gradients; undefined = not required
    std::size_t edge = 0;  // index for needs_input_grad, which skips undefined inputs
    for (std::size_t i = 0; i < kBlockInputs.size(); ++i) {
      if (!saved[i].defined()) continue;
      auto& input = inputs.*kBlockInputs[i];
      input = saved[i].detach();
      if (!context->needs_input_grad(edge++)) continue;
      // Half types lack the precision for sums over blocks.
      sums.*kBlockInputs[i] = torch::zeros_like(input, at::toOpMathType(input.scalar_type()));
    }
    const bool learned_bias = sums.offset_bias.defined();
    const auto by_offset = learned_bias ? torch::Tensor() : attention->mask_by_offset(inputs);

    attention->for_each_block(inputs, [&](const QueryBlock& block) {
      auto sliced = slice_inputs(inputs, block);
      const auto sliced_sums = slice_inputs(sums, block);
      variable_list leaves;
      variable_list targets;
      for (const auto member : kBlockInputs) {
        if (!(sums.*member).defined()) continue;
        sliced.*member = (sliced.*member).detach().requires_grad_();
        leaves.push_back(sliced.*member);
        targets.push_back(sliced_sums.*member);
      }
      torch::Tensor output;
      {
        const torch::AutoGradMode with_gradients(true);
        const auto mask =
            learned_bias
                ? attention->mask_by_offset(
                      {.query = inputs.query, .key = inputs.key, .offset_bias = sliced.offset_bias})
                : by_offset;
        output = attention->run(sliced, block, inputs, mask);
      }
      if (!output.requires_grad()) return;
      const auto gradient = output_gradients[0].narrow(-2, block.row, block.rows);
      const auto computed = torch::autograd::grad({output}, leaves, {gradient}, {}, false,
                                                  /*allow_unused=*/true);
      for (std::size_t i = 0; i < targets.size(); ++i) {
        if (computed[i].defined()) targets[i].add_(computed[i]);
      }
    });
    variable_list gradients;
    for (const auto member : kBlockInputs) {
      const auto& sum = sums.*member;
      gradients.push_back(sum.defined() ? sum.to((inputs.*member).scalar_type()) : sum);
    }
    gradients.emplace_back();  // the argument `attention` has no gradient
    return gradients;
  }
};

/// Returns true if LibTorch's attention stores the weights (T, S). Always false on a GPU: there,
/// LibTorch's choice of a kernel can depend on whether gradients are needed, but the result of this
/// function must not depend on that.
bool kernel_stores_weights(const torch::Tensor& query, const torch::Tensor& key,
                           const torch::Tensor& value, const ScoreOptions& options) {
  return query.is_cpu() &&
         at::_fused_sdp_choice(query, key, value, {}, options.dropout, /*is_causal=*/false,
                               options.scale, is_grouped(query, key)) ==
             static_cast<int64_t>(at::SDPBackend::math);
}

/// Returns the number of queries per block: `BlockLimits::rows` if it is not 0. Otherwise, blocks
/// are small with a learned bias, dropout, a soft cap or sinks, because the weights (rows, keys) of
/// a block are then stored. In all other calls with a sliding window, a block has half as many
/// queries as the window has keys, within limits.
int64_t choose_rows(const AttentionArgs& args, const ScoreOptions& options,
                    const torch::Tensor& offset_bias) {
  if (const auto rows = block_limits().rows; rows > 0) return rows;
  const bool learned = offset_bias.defined() && offset_bias.requires_grad();
  if (learned || options.dropout > 0.0 || options.soft_cap > 0.0 || options.sinks.defined()) {
    return 128;
  }
  return args.sliding_window > 0 ? std::clamp<int64_t>(args.sliding_window / 2, 128, 512) : 512;
}

}  // namespace

BlockLimits& block_limits() {
  thread_local BlockLimits limits;
  return limits;
}

bool computes_in_blocks(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value, const AttentionArgs& args,
                        const ScoreOptions& options, bool has_offset_bias) {
  if (torch::jit::tracer::isTracing() || args.need_weights || AttentionRecorder::is_recording()) {
    return false;
  }
  const auto& limits = block_limits();
  const bool windowed = args.sliding_window > 0 && !args.positions.defined() &&
                        2 * args.sliding_window < key.size(-2);
  if (query.size(-2) < (windowed ? limits.min_queries_with_window : limits.min_queries))
    return false;
  // `checkpoint` runs the forward pass without gradients, and again with gradients. Both passes
  // must draw the same random numbers for dropout, so this function must return the same result in
  // both passes. Therefore, the result does not depend on GradMode. With dropout, every float mask
  // counts as learned: a mask computed from parameters requires a gradient only in the second pass.
  const bool may_be_learned =
      args.mask.defined() &&
      (args.mask.requires_grad() || (options.dropout > 0.0 && args.mask.is_floating_point()));
  if (query.dim() > 4 || value.dim() > 4 || may_be_learned || options.bias.defined() ||
      (has_offset_bias && args.positions.defined())) {
    return false;
  }
  // Blocks save memory or time only if attention without blocks would store a (T, S) tensor: a
  // bias, a mask or the weights.
  return has_offset_bias || needs_mask(query, key, args, options) ||
         computes_weights(args, options) || kernel_stores_weights(query, key, value, options);
}

torch::Tensor all_offsets(const torch::Tensor& query, const torch::Tensor& key) {
  return torch::arange(1 - key.size(-2), query.size(-2), query.options().dtype(torch::kLong));
}

torch::Tensor attend_in_blocks(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, const AttentionArgs& args,
                               const ScoreOptions& options, const torch::Tensor& offset_bias,
                               bool self_attention) {
  const BlockInputs inputs{cast_for_kernel(query), cast_for_kernel(key), cast_for_kernel(value),
                           options.sinks, offset_bias};
  auto attention = c10::make_intrusive<BlockAttention>();
  attention->args = args;
  attention->options = options;
  attention->options.sinks.reset();
  attention->rows = choose_rows(args, options, offset_bias);
  attention->may_mask_rows = can_have_fully_masked_rows(query, key, args, self_attention);
  // Autograd functions in C++ have no forward-mode derivatives.
  const bool has_dual =
      is_dual(args.mask) || std::any_of(kBlockInputs.begin(), kBlockInputs.end(),
                                        [&](auto member) { return is_dual(inputs.*member); });
  if (!torch::GradMode::is_enabled() || has_dual) return forward_blocks(*attention, inputs);
  if (options.dropout > 0.0) attention->rng = rng_state({query.device()});
  const auto optional = [](const torch::Tensor& x) {
    return x.defined() ? std::make_optional(x) : std::nullopt;
  };
  return BlockAttentionFunction::apply(inputs.query, inputs.key, inputs.value,
                                       optional(inputs.sinks), optional(inputs.offset_bias),
                                       attention);
}

}  // namespace attend
