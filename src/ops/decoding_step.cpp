#include "ops/decoding_step.h"

#include "ops/fast_kernels.h"
#include "ops/fast_linear.h"
#include "ops/phases.h"
#include "ops/row_products.h"
#include "ops/step_kernels.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace attend {
namespace {

/// Elements of weights, keys and values for which a thread is worth its start.
constexpr int64_t kElementsOfPart = 8 * 1024;

int64_t grain(int64_t elements) {
  return std::max<int64_t>(1, kElementsOfPart / elements);
}

int64_t rows_of(const torch::Tensor& x) {
  return x.numel() / x.size(-1);
}

bool is_float_vector(const torch::Tensor& bias, int64_t size) {
  return bias.scalar_type() == torch::kFloat && bias.dim() == 1 && bias.size(0) == size &&
         bias.stride(0) == 1;
}

bool supports(const StepLinear& linear, int64_t inputs, int64_t outputs, int64_t rows) {
  const auto& [weight, bias] = linear;
  return weight.dim() == 2 && weight.size(0) == outputs && weight.size(1) == inputs &&
         reads_rows(weight, rows) && (!bias.defined() || is_float_vector(bias, outputs));
}

/// A product with the weight of a linear layer.
class Product {
 public:
  /// `x` (rows, K), `y` (rows, N). `added` (rows, N) is added to y; null = none.
  Product(const StepLinear& linear, int64_t rows, const float* x, float* y,
          const float* added = nullptr)
      : product_{.rows = rows,
                 .columns = linear.weight.size(1),
                 .bias = linear.bias.defined() ? linear.bias.const_data_ptr<float>() : nullptr,
                 .y = y,
                 .outputs = linear.weight.size(0)},
        x_(x),
        added_(added),
        weight_{.data = linear.weight.const_data_ptr<float>(), .stride = linear.weight.stride(0)} {}

  /// Computes columns `begin` to `end` - 1 of y.
  void operator()(int64_t begin, int64_t end) const {
    multiply(product_, x_, weight_, RowRange{begin, end});
    for (int64_t r = 0; added_ != nullptr && r < product_.rows; ++r) {
      const auto row = r * product_.outputs;
      for (auto n = row + begin; n < row + end; ++n) product_.y[n] += added_[n];
    }
  }
  /// Computes all columns.
  Phase phase() const { return {product_.outputs, grain(product_.columns), *this}; }

 private:
  RowProduct product_;
  const float* x_;
  const float* added_;
  FloatRows weight_;
};

/// Returns the rows of `x`, or those of norm(x), which are written to `buffer`.
const float* normalized(const torch::Tensor& x, const StepNorm* norm, float* buffer) {
  const auto* rows = x.const_data_ptr<float>();
  if (norm == nullptr) return rows;
  const auto width = x.size(-1);
  for (int64_t begin = 0; begin < x.numel(); begin += width) {
    normalize({.x = rows + begin,
               .weight = norm->weight.const_data_ptr<float>(),
               .bias = norm->bias.defined() ? norm->bias.const_data_ptr<float>() : nullptr,
               .y = buffer + begin,
               .width = width,
               .eps = norm->eps,
               .subtracts_mean = norm->subtracts_mean});
  }
  return buffer;
}

}  // namespace

bool can_step(const torch::Tensor& x, const StepNorm* norm, const StepLinear& first, int64_t hidden,
              const StepLinear& second, int64_t inputs) {
  const bool supports_x = x.dim() > 0 && x.numel() > 0 &&
                          x.numel() <= kMaxProductRows * x.size(-1) &&
                          x.scalar_type() == torch::kFloat && x.is_contiguous();
  if (!supports_x ||
      !can_use_inference_kernels({&x, &first.weight, &first.bias, &second.weight, &second.bias})) {
    return false;
  }
  const auto width = x.size(-1);
  const bool supports_norm =
      norm == nullptr || (can_use_inference_kernels({&norm->weight, &norm->bias}) &&
                          is_float_vector(norm->weight, width) && second.weight.size(0) == width &&
                          (!norm->bias.defined() || is_float_vector(norm->bias, width)));
  return supports_norm && supports(first, width, hidden, rows_of(x)) &&
         supports(second, inputs, second.weight.size(0), rows_of(x));
}

torch::Tensor attention_step(const AttentionStep& step) {
  const auto &x = step.x, &keys = step.keys, &values = step.values;
  const auto num_heads = step.num_heads, num_kv_heads = step.num_kv_heads;
  const auto head_dim = step.head_dim, used = step.used;
  RECORD_FUNCTION("attend::attention_step",
                  c10::ArrayRef<const c10::IValue>({x, step.qkv.weight, step.out.weight, used}));
  const auto batch = x.size(0);
  const auto inner = num_heads * head_dim;
  const auto outputs = step.qkv.weight.size(0);
  const auto buffer =
      std::make_unique_for_overwrite<float[]>(batch * (outputs + inner) + x.numel());
  auto* const projected = buffer.get();                // (B, H + 2 G, D)
  auto* const attended = projected + batch * outputs;  // (B, H, D)
  const auto vectors = [&](const torch::Tensor& cached, int64_t sequence, int64_t group) {
    // mutable_data_ptr would check the type and the storage for each vector.
    return static_cast<float*>(cached.data_ptr()) + sequence * cached.stride(0) +
           group * cached.stride(1);
  };

  const auto* input = normalized(x, step.norm, attended + batch * inner);
  const auto* added = step.norm == nullptr ? nullptr : x.const_data_ptr<float>();
  const Product project(step.qkv, batch, input, projected);
  // A thread computes whole heads.
  const auto num_vectors = num_heads + 2 * num_kv_heads;
  const auto project_and_append = [&](int64_t begin, int64_t end) {
    project(begin * head_dim, end * head_dim);
    for (auto i = std::max(begin, num_heads); i < end; ++i) {
      const bool is_key = i < num_heads + num_kv_heads;
      const auto& cached = is_key ? keys : values;
      for (int64_t b = 0; b < batch; ++b) {
        std::copy_n(
            projected + b * outputs + i * head_dim, head_dim,
            vectors(cached, b, (i - num_heads) % num_kv_heads) + (used - 1) * cached.stride(2));
      }
    }
  };

  const auto factor = step.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
  const auto attend_to_all = [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto sequence = i / num_heads;
      const auto head = i % num_heads;
      const auto group = head * num_kv_heads / num_heads;
      attend({.query = projected + sequence * outputs + head * head_dim,
              .keys = vectors(keys, sequence, group),
              .values = vectors(values, sequence, group),
              .output = attended + i * head_dim,
              .key_stride = keys.stride(2),
              .value_stride = values.stride(2),
              .count = used,
              .head_dim = head_dim,
              .scale = static_cast<float>(factor)});
    }
  };

  auto y = torch::empty({batch, 1, step.out.weight.size(0)}, x.options());
  const Product out_product(step.out, batch, attended, y.mutable_data_ptr<float>(), added);
  in_phases({{num_vectors, grain(head_dim * x.size(-1)), project_and_append},
             {batch * num_heads, grain(2 * used * head_dim), attend_to_all},
             out_product.phase()});
  return y;
}

torch::Tensor feed_forward_step(const torch::Tensor& x, const StepNorm* norm, const StepLinear& up,
                                const StepLinear& down, Activation activation) {
  const bool gated = is_gated(activation);
  const auto width = down.weight.dim() == 2 ? down.weight.size(1) : 0;
  const auto hidden = gated ? 2 * width : width;
  if (!can_step(x, norm, up, hidden, down, width)) return {};
  RECORD_FUNCTION("attend::feed_forward_step",
                  c10::ArrayRef<const c10::IValue>({x, up.weight, down.weight}));
  const auto rows = rows_of(x);
  const auto buffer = std::make_unique_for_overwrite<float[]>(rows * (hidden + width) + x.numel());
  auto* const projected = buffer.get();               // (rows, hidden)
  auto* const activated = projected + rows * hidden;  // (rows, F)
  const auto* input = normalized(x, norm, activated + rows * width);
  const auto* added = norm == nullptr ? nullptr : x.const_data_ptr<float>();
  const Product project(up, rows, input, projected);
  const auto project_and_activate = [&](int64_t begin, int64_t end) {
    project(begin, end);
    if (gated) project(width + begin, width + end);
    for (int64_t r = 0; r < rows; ++r) {
      const auto* row = projected + r * hidden + begin;
      activate({.x = row,
                .factor = gated ? row + width : nullptr,
                .y = activated + r * width + begin,
                .count = end - begin,
                .activation = activation});
    }
  };
  auto shape = x.sizes().vec();
  shape.back() = down.weight.size(0);
  auto y = torch::empty(shape, x.options());
  const Product down_product(down, rows, activated, y.mutable_data_ptr<float>(), added);
  in_phases({{width, grain(x.size(-1)), project_and_activate}, down_product.phase()});
  return y;
}

}  // namespace attend
