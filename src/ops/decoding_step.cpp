#include "ops/decoding_step.h"

#include "ops/fast_kernels.h"
#include "ops/fast_linear.h"
#include "ops/in_parallel.h"
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

const float* floats_of(const torch::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

bool is_float_vector(const torch::Tensor& x, int64_t size) {
  return x.scalar_type() == torch::kFloat && x.dim() == 1 && x.size(0) == size && x.stride(0) == 1;
}

/// Returns true if `x` (..., E) has a few rows in float32.
bool has_few_rows(const torch::Tensor& x) {
  return x.dim() > 0 && x.numel() > 0 && x.numel() <= kMaxProductRows * x.size(-1) &&
         x.scalar_type() == torch::kFloat && x.is_contiguous();
}

/// Sets `StepLinear::rows`, and returns false if there are none.
bool prepare(StepLinear& linear, int64_t inputs, int64_t outputs, int64_t rows) {
  const auto& weight = linear.weight;
  const auto& bias = linear.bias;
  const bool supported = can_use_inference_kernels({&weight, &bias}) && weight.dim() == 2 &&
                         weight.size(0) == outputs && weight.size(1) == inputs &&
                         (!bias.defined() || is_float_vector(bias, outputs));
  if (supported) linear.rows = weight_rows(weight, rows);
  return linear.rows.has_value();
}

bool supports(const std::optional<StepNorm>& norm, int64_t width) {
  return !norm || (can_use_inference_kernels({&norm->weight, &norm->bias}) &&
                   is_float_vector(norm->weight, width) &&
                   (!norm->bias.defined() || is_float_vector(norm->bias, width)));
}

/// Returns true if the products map the rows of `x` to `hidden` numbers, and `inputs` numbers to
/// the rows of the output. With a norm, the output is added to `x`.
bool prepare(const torch::Tensor& x, const std::optional<StepNorm>& norm, StepLinear& first,
             int64_t hidden, StepLinear& second, int64_t inputs) {
  if (!has_few_rows(x) || !can_use_inference_kernels({&x}) || second.weight.dim() != 2)
    return false;
  const auto width = x.size(-1);
  const auto outputs = norm ? width : second.weight.size(0);
  return supports(norm, width) && prepare(first, width, hidden, rows_of(x)) &&
         prepare(second, inputs, outputs, rows_of(x));
}

/// A product with the weight of a linear layer.
class Product {
 public:
  /// `x` (rows, K), `y` (rows, N). `added` (rows, N) is added to y; null = none.
  Product(const StepLinear& linear, int64_t rows, const float* x, float* y,
          const float* added = nullptr)
      : product_{.rows = rows,
                 .columns = linear.weight.size(1),
                 .bias = floats_of(linear.bias),
                 .y = y,
                 .outputs = linear.weight.size(0)},
        x_(x),
        added_(added),
        rows_(linear.rows.value()) {}

  /// Returns true if x must be rounded before the product is computed.
  bool rounds_input() const { return !std::holds_alternative<FloatRows>(rows_); }
  void round_input() {
    if (rounds_input()) integers_ = to_integers(x_, product_.rows, product_.columns);
  }
  /// Computes columns `begin` to `end` - 1 of y.
  void operator()(int64_t begin, int64_t end) const {
    const RowRange range{begin, end};
    if (const auto* floats = std::get_if<FloatRows>(&rows_)) {
      multiply(product_, x_, *floats, range);
    } else if (const auto* int8 = std::get_if<Int8Rows>(&rows_)) {
      multiply(product_, integers_, *int8, range);
    } else {
      multiply(product_, integers_, std::get<Int4Rows>(rows_), range);
    }
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
  const WeightRows& rows_;
  IntegerInput integers_;
};

/// Normalizes rows (rows, width). `y` may be `x`.
void normalize_rows(const StepNorm& norm, const float* x, float* y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    normalize({.x = x + r * width,
               .weight = norm.weight.const_data_ptr<float>(),
               .bias = floats_of(norm.bias),
               .y = y + r * width,
               .width = width,
               .eps = norm.eps,
               .subtracts_mean = norm.subtracts_mean});
  }
}

/// Returns the rows of `x`, or those of norm(x), which are written to `buffer`.
const float* normalized(const torch::Tensor& x, const std::optional<StepNorm>& norm,
                        float* buffer) {
  const auto* rows = x.const_data_ptr<float>();
  if (!norm) return rows;
  normalize_rows(*norm, rows, buffer, rows_of(x), x.size(-1));
  return buffer;
}

/// Rotates the first R channels of the vector `x` of a sequence.
void rotate(float* x, const StepRotation& rotation, int64_t sequence, bool interleaved) {
  const auto pairs = rotation.pairs;
  const auto* cos = rotation.cos.data() + sequence * pairs;
  const auto* sin = rotation.sin.data() + sequence * pairs;
  const auto step = interleaved ? 2 : 1;        // between the pairs
  const auto offset = interleaved ? 1 : pairs;  // between the channels of a pair
  for (int64_t i = 0; i < pairs; ++i) {
    const auto a = x[i * step], b = x[i * step + offset];
    x[i * step] = a * cos[i] - b * sin[i];
    x[i * step + offset] = a * sin[i] + b * cos[i];
  }
}

/// The vectors (D) of the heads of each sequence.
struct Heads {
  const float* data = nullptr;
  int64_t sequence_stride = 0;
  int64_t head_stride = 0;

  explicit Heads(const torch::Tensor& x)
      : data(x.const_data_ptr<float>()), sequence_stride(x.stride(0)), head_stride(x.stride(1)) {}
  Heads(const float* data, int64_t sequence_stride, int64_t head_stride)
      : data(data), sequence_stride(sequence_stride), head_stride(head_stride) {}
  const float* at(int64_t sequence, int64_t head) const {
    return data + sequence * sequence_stride + head * head_stride;
  }
};

/// Attention of one query per head. The outputs (B, H, D) are contiguous.
struct HeadAttention {
  Heads queries;  // H
  Heads keys;     // G
  Heads values;   // G
  float* outputs = nullptr;
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  std::optional<double> scale;

  /// Computes the outputs `begin` to `end` - 1 of the B H heads. `range(sequence)` returns the keys
  /// to which the query of a sequence attends.
  template <typename Range>
  void run(int64_t begin, int64_t end, const Range& range) const {
    const auto factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
    for (auto i = begin; i < end; ++i) {
      const auto sequence = i / num_heads;
      const auto head = i % num_heads;
      const auto group = head * num_kv_heads / num_heads;
      const RowRange keys_of_query = range(sequence);
      attend_one_query({.query = queries.at(sequence, head),
                        .keys = keys.at(sequence, group) + keys_of_query.begin * key_stride,
                        .values = values.at(sequence, group) + keys_of_query.begin * value_stride,
                        .output = outputs + i * head_dim,
                        .key_stride = key_stride,
                        .value_stride = value_stride,
                        .count = keys_of_query.end - keys_of_query.begin,
                        .head_dim = head_dim,
                        .scale = static_cast<float>(factor)});
    }
  }
};

/// Returns true if `x` has four dimensions, and vectors of float32 that are contiguous.
bool has_vectors(const torch::Tensor& x) {
  return x.dim() == 4 && x.scalar_type() == torch::kFloat && x.numel() > 0 && x.stride(3) == 1;
}

}  // namespace

bool prepare(const torch::Tensor& x, AttentionStep& step) {
  return prepare(x, step.norm, step.qkv, (step.num_heads + 2 * step.num_kv_heads) * step.head_dim,
                 step.out, step.num_heads * step.head_dim) &&
         supports(step.query_norm, step.head_dim) && supports(step.key_norm, step.head_dim);
}

bool prepare(const torch::Tensor& x, FeedForwardStep& step) {
  const auto width = step.down.weight.dim() == 2 ? step.down.weight.size(1) : 0;
  return prepare(x, step.norm, step.up, is_gated(step.activation) ? 2 * width : width, step.down,
                 width);
}

torch::Tensor attention_step(const torch::Tensor& x, const AttentionStep& step,
                             const StepCache& cache) {
  const auto range = [&](int64_t sequence) {
    const auto length = cache.lengths[static_cast<std::size_t>(sequence)];
    const auto begin = step.sliding_window == 0 ? 0 : length - step.sliding_window;
    return RowRange{std::max<int64_t>(begin, 0), length};
  };
  int64_t used = 0;  // most keys of a query
  for (int64_t b = 0; b < x.size(0); ++b) used = std::max(used, range(b).end - range(b).begin);
  RECORD_FUNCTION("attend::attention_step",
                  c10::ArrayRef<const c10::IValue>({x, step.qkv.weight, step.out.weight, used}));
  const auto batch = x.size(0), head_dim = step.head_dim;
  const auto num_heads = step.num_heads, num_kv_heads = step.num_kv_heads;
  const auto inner = num_heads * head_dim;
  const auto outputs = step.qkv.weight.size(0);
  const auto buffer =
      std::make_unique_for_overwrite<float[]>(batch * (outputs + inner) + x.numel());
  auto* const projected = buffer.get();                // (B, H + 2 G, D)
  auto* const attended = projected + batch * outputs;  // (B, H, D)

  const auto* input = normalized(x, step.norm, attended + batch * inner);
  const auto* added = step.norm ? x.const_data_ptr<float>() : nullptr;
  Product project(step.qkv, batch, input, projected);
  project.round_input();
  // A thread computes whole heads.
  const auto num_vectors = num_heads + 2 * num_kv_heads;
  const auto project_and_append = [&](int64_t begin, int64_t end) {
    project(begin * head_dim, end * head_dim);
    for (auto i = begin; i < end; ++i) {
      const bool is_query = i < num_heads;
      const bool is_value = i >= num_heads + num_kv_heads;
      const auto& norm = is_query ? step.query_norm : step.key_norm;
      const auto& cached = is_value ? cache.values : cache.keys;
      for (int64_t b = 0; b < batch; ++b) {
        auto* vector = projected + b * outputs + i * head_dim;
        if (!is_value && norm) normalize_rows(*norm, vector, vector, 1, head_dim);
        if (!is_value && step.rotation) rotate(vector, *step.rotation, b, step.interleaved);
        if (is_query) continue;
        // mutable_data_ptr would check the type and the storage for each vector.
        std::copy_n(vector, head_dim,
                    static_cast<float*>(cached.data_ptr()) + b * cached.stride(0) +
                        (i - num_heads) % num_kv_heads * cached.stride(1) +
                        (range(b).end - 1) * cached.stride(2));
      }
    }
  };
  const HeadAttention heads{.queries = {projected, outputs, head_dim},
                            .keys = Heads(cache.keys),
                            .values = Heads(cache.values),
                            .outputs = attended,
                            .key_stride = cache.keys.stride(2),
                            .value_stride = cache.values.stride(2),
                            .num_heads = num_heads,
                            .num_kv_heads = num_kv_heads,
                            .head_dim = head_dim,
                            .scale = step.scale};
  const auto attend_to_all = [&](int64_t begin, int64_t end) { heads.run(begin, end, range); };
  auto y = torch::empty({batch, 1, step.out.weight.size(0)}, x.options());
  Product out_product(step.out, batch, attended, y.mutable_data_ptr<float>(), added);
  const auto round_attended = [&](int64_t, int64_t) { out_product.round_input(); };
  in_phases({{num_vectors, grain(head_dim * x.size(-1)), project_and_append},
             {batch * num_heads, grain(2 * used * head_dim), attend_to_all},
             {out_product.rounds_input(), 1, round_attended},
             out_product.phase()});
  return y;
}

torch::Tensor feed_forward_step(const torch::Tensor& x, const FeedForwardStep& step) {
  RECORD_FUNCTION("attend::feed_forward_step",
                  c10::ArrayRef<const c10::IValue>({x, step.up.weight, step.down.weight}));
  const bool gated = is_gated(step.activation);
  const auto width = step.down.weight.size(1);
  const auto hidden = gated ? 2 * width : width;
  const auto rows = rows_of(x);
  const auto buffer = std::make_unique_for_overwrite<float[]>(rows * (hidden + width) + x.numel());
  auto* const projected = buffer.get();               // (rows, hidden)
  auto* const activated = projected + rows * hidden;  // (rows, F)
  const auto* input = normalized(x, step.norm, activated + rows * width);
  const auto* added = step.norm ? x.const_data_ptr<float>() : nullptr;
  Product project(step.up, rows, input, projected);
  project.round_input();
  const auto project_and_activate = [&](int64_t begin, int64_t end) {
    project(begin, end);
    if (gated) project(width + begin, width + end);
    for (int64_t r = 0; r < rows; ++r) {
      const auto* row = projected + r * hidden + begin;
      activate({.x = row,
                .factor = gated ? row + width : nullptr,
                .y = activated + r * width + begin,
                .count = end - begin,
                .activation = step.activation});
    }
  };
  auto shape = x.sizes().vec();
  shape.back() = step.down.weight.size(0);
  auto y = torch::empty(shape, x.options());
  Product down_product(step.down, rows, activated, y.mutable_data_ptr<float>(), added);
  const auto round_activated = [&](int64_t, int64_t) { down_product.round_input(); };
  in_phases({{width, grain(x.size(-1)), project_and_activate},
             {down_product.rounds_input(), 1, round_activated},
             down_product.phase()});
  return y;
}

StepRotation step_rotation(const std::vector<int64_t>& lengths,
                           const std::vector<double>& frequencies, double attention_scaling) {
  StepRotation rotation{.pairs = static_cast<int64_t>(frequencies.size())};
  const auto factor = static_cast<float>(attention_scaling);
  for (const auto length : lengths) {
    for (const auto frequency : frequencies) {
      // In float32, as the tables of the prompt.
      const auto angle = static_cast<float>(length - 1) * static_cast<float>(frequency);
      rotation.cos.push_back(std::cos(angle) * factor);
      rotation.sin.push_back(std::sin(angle) * factor);
    }
  }
  return rotation;
}

torch::Tensor norm_of_few_rows(const torch::Tensor& x, const StepNorm& norm) {
  if (!has_few_rows(x) || !can_use_inference_kernels({&x}) || !supports(norm, x.size(-1)))
    return {};
  auto y = torch::empty(x.sizes(), x.options());
  normalize_rows(norm, x.const_data_ptr<float>(), y.mutable_data_ptr<float>(), rows_of(x),
                 x.size(-1));
  return y;
}

torch::Tensor one_query_attention(const torch::Tensor& query, const torch::Tensor& key,
                                  const torch::Tensor& value, std::optional<double> scale) {
  const bool supported = has_vectors(query) && has_vectors(key) && has_vectors(value) &&
                         query.size(2) == 1 && key.size(0) == query.size(0) &&
                         query.size(1) % key.size(1) == 0 && value.sizes() == key.sizes();
  if (!supported || !can_use_inference_kernels({&query, &key, &value})) return {};
  RECORD_FUNCTION("attend::one_query_attention",
                  c10::ArrayRef<const c10::IValue>({query, key, value}));
  auto output = torch::empty(query.sizes(), query.options());  // (B, H, 1, D)
  const HeadAttention heads{.queries = Heads(query),
                            .keys = Heads(key),
                            .values = Heads(value),
                            .outputs = output.mutable_data_ptr<float>(),
                            .key_stride = key.stride(2),
                            .value_stride = value.stride(2),
                            .num_heads = query.size(1),
                            .num_kv_heads = key.size(1),
                            .head_dim = query.size(3),
                            .scale = scale};
  const RowRange all_keys{0, key.size(2)};
  in_parallel(query.size(0) * heads.num_heads, grain(2 * all_keys.end * heads.head_dim),
              [&](int64_t begin, int64_t end) {
                heads.run(begin, end, [&](int64_t /*sequence*/) { return all_keys; });
              });
  return output;
}

}  // namespace attend
