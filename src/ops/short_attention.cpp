#include "ops/short_attention.h"

#include "ops/double_backward.h"
#include "ops/fast_kernels.h"
#include "ops/in_parallel.h"
#include "ops/short_attention_kernels.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// With fewer queries, transposing the keys takes too long. With more, the weights of a head take
/// more than 1 MiB; LibTorch's kernel computes them in blocks.
constexpr int64_t kMinQueries = 16;
constexpr int64_t kMaxLength = 512;
constexpr int64_t kMaxHeadDim = 128;

bool is_supported(const torch::Tensor& query, const torch::Tensor& key,
                  const torch::Tensor& value) {
  const auto type = query.scalar_type();
  if (type != torch::kFloat && type != torch::kBFloat16) return false;
  const auto has_contiguous_rows = [&](const torch::Tensor& x) {
    return x.scalar_type() == type && x.dim() == 4 && x.stride(-1) == 1;
  };
  return has_contiguous_rows(query) && has_contiguous_rows(key) && has_contiguous_rows(value) &&
         key.sizes() == value.sizes() && query.size(0) == key.size(0) &&
         query.size(1) == key.size(1) && query.size(3) == key.size(3) &&
         query.size(3) % kHeadDimUnit == 0 && query.size(3) <= kMaxHeadDim &&
         query.size(2) >= kMinQueries && query.size(2) <= kMaxLength && key.size(2) > 0 &&
         key.size(2) <= kMaxLength && query.numel() > 0;
}

HeadShape shape_of(const torch::Tensor& query, const torch::Tensor& key, double scale,
                   bool causal) {
  return {.queries = query.size(2),
          .keys = key.size(2),
          .head_dim = query.size(3),
          .scale = scale,
          .causal = causal};
}

/// The tensor's rows of the head h of the sequence b.
template <typename T>
HeadRows<T> rows_of(const torch::Tensor& x, int64_t b, int64_t h) {
  auto* data = [&] {
    if constexpr (std::is_const_v<T>) {
      return static_cast<T*>(x.const_data_ptr());
    } else {
      return static_cast<T*>(x.mutable_data_ptr());
    }
  }();
  return {data + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

/// Calls `run(b, h, scratch)` for each head h of each sequence b, on LibTorch's threads.
template <typename Run>
void for_each_head(const torch::Tensor& query, int64_t scratch_size, const Run& run) {
  const auto heads = query.size(1);
  in_parallel(query.size(0) * heads, /*grain=*/1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(scratch_size));
    for (auto i = begin; i < end; ++i) run(i / heads, i % heads, scratch.data());
  });
}

/// Returns an uninitialized tensor (B, H, T, D) whose memory has the order (B, T, H, D), so that
/// the heads of a token can be flattened without a copy.
torch::Tensor empty_heads(const torch::Tensor& like) {
  const auto b = like.size(0), h = like.size(1), t = like.size(2), d = like.size(3);
  return at::empty_strided({b, h, t, d}, {t * h * d, d, h * d, 1}, like.options());
}

struct Output {
  torch::Tensor output;     // (B, H, T, D)
  torch::Tensor logsumexp;  // (B, H, T)
};

template <typename T>
void attend_heads(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                  const HeadShape& shape, const Output& result) {
  auto* logsumexp = result.logsumexp.mutable_data_ptr<float>();
  for_each_head(query, forward_scratch_size(shape), [&](int64_t b, int64_t h, float* scratch) {
    const Head<T> head{.query = rows_of<const T>(query, b, h),
                       .key = rows_of<const T>(key, b, h),
                       .value = rows_of<const T>(value, b, h),
                       .output = rows_of<T>(result.output, b, h),
                       .logsumexp = logsumexp + (b * query.size(1) + h) * shape.queries};
    attend_head(shape, head, scratch);
  });
}

Output run_kernel(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                  double scale, bool causal) {
  RECORD_FUNCTION("attend::short_attention", c10::ArrayRef<const c10::IValue>({query, key, value}));
  const auto shape = shape_of(query, key, scale, causal);
  const Output result{.output = empty_heads(query),
                      .logsumexp = torch::empty({query.size(0), query.size(1), query.size(2)},
                                                query.options().dtype(torch::kFloat))};
  if (query.scalar_type() == torch::kFloat) {
    attend_heads<float>(query, key, value, shape, result);
  } else {
    attend_heads<BFloat16Bits>(query, key, value, shape, result);
  }
  return result;
}

/// The inputs of the backward pass.
struct Saved {
  torch::Tensor query;
  torch::Tensor key;
  torch::Tensor value;
  torch::Tensor logsumexp;
};

/// Gradients with respect to query, key and value.
using Gradients = std::array<torch::Tensor, 3>;

template <typename T>
void attend_heads_backward(const Saved& saved, const torch::Tensor& output_gradient,
                           const HeadShape& shape, const Gradients& gradients) {
  const auto* logsumexp = saved.logsumexp.const_data_ptr<float>();
  const auto heads = saved.query.size(1);
  for_each_head(
      saved.query, backward_scratch_size(shape), [&](int64_t b, int64_t h, float* scratch) {
        const HeadGradient<T> head{.query = rows_of<const T>(saved.query, b, h),
                                   .key = rows_of<const T>(saved.key, b, h),
                                   .value = rows_of<const T>(saved.value, b, h),
                                   .output_gradient = rows_of<const T>(output_gradient, b, h),
                                   .logsumexp = logsumexp + (b * heads + h) * shape.queries,
                                   .query_gradient = rows_of<T>(gradients[0], b, h),
                                   .key_gradient = rows_of<T>(gradients[1], b, h),
                                   .value_gradient = rows_of<T>(gradients[2], b, h)};
        attend_head_backward(shape, head, scratch);
      });
}

Gradients run_backward_kernel(const Saved& saved, const torch::Tensor& output_gradient,
                              double scale, bool causal) {
  RECORD_FUNCTION("attend::short_attention_backward",
                  c10::ArrayRef<const c10::IValue>({saved.query, saved.key, saved.value}));
  const auto shape = shape_of(saved.query, saved.key, scale, causal);
  const Gradients gradients{empty_heads(saved.query), empty_heads(saved.key),
                            empty_heads(saved.value)};
  const auto gradient =
      output_gradient.stride(-1) == 1 ? output_gradient : output_gradient.contiguous();
  if (saved.query.scalar_type() == torch::kFloat) {
    attend_heads_backward<float>(saved, gradient, shape, gradients);
  } else {
    attend_heads_backward<BFloat16Bits>(saved, gradient, shape, gradients);
  }
  return gradients;
}

struct ShortAttentionFunction : torch::autograd::Function<ShortAttentionFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& query,
                               const torch::Tensor& key, const torch::Tensor& value, double scale,
                               bool causal) {
    const auto result = run_kernel(query, key, value, scale, causal);
    context->save_for_backward({query, key, value, result.logsumexp});
    context->saved_data["scale"] = scale;
    context->saved_data["causal"] = causal;
    return result.output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto tensors = context->get_saved_variables();
    const Saved saved{tensors[0], tensors[1], tensors[2], tensors[3]};
    const double scale = context->saved_data["scale"].toDouble();
    const bool causal = context->saved_data["causal"].toBool();
    const auto& gradient = output_gradients[0];
    const bool is_fast = !torch::GradMode::is_enabled() && can_use_fast_kernels({&gradient});
    if (is_fast) {
      const auto [of_query, of_key, of_value] = run_backward_kernel(saved, gradient, scale, causal);
      return {of_query, of_key, of_value, {}, {}};
    }
    const FusedInputs inputs{.query = saved.query,
                             .key = saved.key,
                             .value = saved.value,
                             .causal = causal,
                             .scale = scale};
    const auto computed = differentiable_gradients(inputs, gradient);
    return {computed[0], computed[1], computed[2], {}, {}};
  }
};

}  // namespace

std::optional<torch::Tensor> short_attention(const torch::Tensor& query, const torch::Tensor& key,
                                             const torch::Tensor& value, bool causal,
                                             const ScoreOptions& options) {
  if (options.dropout > 0.0 || !can_use_fast_kernels({&query, &key, &value})) return {};
  if (!is_supported(query, key, value)) return {};
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  return computes_gradients({&query, &key, &value})
             ? ShortAttentionFunction::apply(query, key, value, scale, causal)
             : run_kernel(query, key, value, scale, causal).output;
}

}  // namespace attend
