#include "attend/ops/linear.h"

#include "ops/autocast.h"
#include "ops/cpu_features.h"
#include "ops/fast_kernels.h"
#include "ops/fast_linear.h"
#include "ops/in_parallel.h"
#include "ops/row_products.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Elements of a weight for which a thread is worth its start.
constexpr int64_t kElementsPerThread = 16 * 1024;
/// Products with smaller weights are limited by the time of a call, which is longer for oneDNN than
/// for MKL.
constexpr int64_t kMinElements = 128 * 1024;
constexpr int64_t kMinMultiplications = 6'000'000;

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, std::string_view,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);
using ReorderLinearWeight = at::Tensor(const at::Tensor&, std::optional<c10::SymInt>);

/// Operators of LibTorch that call oneDNN.
struct OneDnn {
  c10::TypedOperatorHandle<LinearPointwise> linear;
  c10::TypedOperatorHandle<ReorderLinearWeight> reorder;
};

/// Returns std::nullopt if LibTorch was built without oneDNN.
const std::optional<OneDnn>& one_dnn() {
  static const auto operators = []() -> std::optional<OneDnn> {
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto linear = dispatcher.findSchema({"mkldnn::_linear_pointwise", ""});
    const auto reorder = dispatcher.findSchema({"mkldnn::_reorder_linear_weight", ""});
    if (!at::hasMKLDNN() || !linear || !reorder) return {};
    return OneDnn{linear->typed<LinearPointwise>(), reorder->typed<ReorderLinearWeight>()};
  }();
  return operators;
}

/// MKL is slower than oneDNN on AMD processors.
bool mkl_is_slow() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

bool has_avx512_bf16() {
#if defined(__x86_64__) && defined(__GNUC__)
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

/// Elements of a weight that show whether it has changed. Reading them takes far less time than a
/// product, also if no element is in the cache.
constexpr int64_t kSamples = 16;

/// The bits of an element.
using Bits = uint32_t;

Bits bits_at(const at::TensorBase& weight, int64_t offset) {
  Bits bits = 0;
  const auto size = weight.element_size();  // 4, or 2 for bfloat16
  std::memcpy(&bits, static_cast<const char*>(weight.const_data_ptr()) + offset * size, size);
  return bits;
}

/// An element at the time of the copy.
struct Sample {
  int64_t offset = 0;  // from the first element, in elements
  Bits bits = 0;
};

/// Returns the element with the largest absolute value of each of `kSamples` parts of a weight
/// (N, K): factors change it, also if most elements are 0.
std::array<Sample, kSamples> samples_of(const torch::Tensor& weight) {
  std::array<Sample, kSamples> samples;
  const auto flat = weight.abs().flatten();  // (N K)
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto begin = i * flat.numel() / kSamples;
    const auto end = (i + 1) * flat.numel() / kSamples;
    const auto index = begin + flat.slice(0, begin, end).argmax().item<int64_t>();
    const auto offset =
        index / weight.size(1) * weight.stride(0) + index % weight.size(1) * weight.stride(1);
    samples[static_cast<std::size_t>(i)] = {offset, bits_at(weight, offset)};
  }
  return samples;
}

/// The copy of a weight. It is stored in the weight's tensor.
struct PreparedWeight : c10::BackendMeta {
  WeightFormat format = WeightFormat::packed;
  torch::Tensor elements;                // of oneDNN, of Int8Rows or of Int4Rows
  torch::Tensor scales;                  // int8: (N); int4: units (N, 2)
  const void* data = nullptr;            // of the weight that was copied
  int64_t version = 0;                   // of the weight that was copied
  std::array<Sample, kSamples> samples;  // of the weight that was copied
  std::atomic<bool> is_valid = true;

  /// Called if LibTorch copies the metadata of the weight to another tensor, such as
  /// `weight.data()`. This tensor has a version of its own, so it gets no copy.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return {};
  }
};

/// Returns the copy of `weight`, or null if there is none or if it must no longer be used.
PreparedWeight* find_copy(const at::TensorBase& weight) {
  auto* found = dynamic_cast<PreparedWeight*>(weight.unsafeGetTensorImpl()->get_backend_meta());
  return found != nullptr && found->is_valid ? found : nullptr;
}

/// Returns true if no change of `weight` since its copy is noticed. Otherwise, invalidates the
/// copy: an answer that began with the weight must not end with its copy.
bool validate(PreparedWeight& copy, const at::TensorBase& weight) {
  const bool unchanged =
      copy.data == weight.const_data_ptr() && copy.version == weight._version() &&
      std::all_of(copy.samples.begin(), copy.samples.end(), [&](const Sample& sample) {
        return bits_at(weight, sample.offset) == sample.bits;
      });
  if (!unchanged) copy.is_valid = false;
  return unchanged;
}

/// Returns true if the rows of `matrix`, or its columns, are contiguous and do not overlap.
bool is_matrix(const torch::Tensor& matrix) {
  if (matrix.dim() != 2) return false;
  return (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) ||
         (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0));
}

/// Returns true if the kernels of this file support the types and shapes of a product.
bool supports(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  const auto type = x.scalar_type();
  const bool types_match = (type == torch::kFloat || type == torch::kBFloat16) &&
                           weight.scalar_type() == type &&
                           (!bias.defined() || bias.scalar_type() == type);
  const bool shapes_match =
      x.dim() > 0 && is_matrix(weight) && x.size(-1) == weight.size(1) &&
      (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
  return types_match && shapes_match && x.numel() > 0 && weight.numel() > 0;
}

/// A function that oneDNN applies to each element of a product.
struct PostOp {
  std::string_view name = "none";
  std::string_view algorithm = {};
};

/// Returns std::nullopt if oneDNN does not have the activation, or makes 0 of NaN, as in relu.
std::optional<PostOp> post_op(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return PostOp{"gelu", "none"};
    case Activation::gelu_tanh:
      return PostOp{"gelu", "tanh"};
    case Activation::silu:
      return PostOp{"swish"};
    default:
      return {};
  }
}

torch::Tensor call_one_dnn(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias, PostOp post_op = {}) {
  // oneDNN ignores the strides of the bias.
  const auto optional_bias = bias.defined() ? std::make_optional(bias.contiguous()) : std::nullopt;
  return one_dnn()->linear.call(x, weight, optional_bias, post_op.name,
                                /*scalars=*/c10::List<std::optional<at::Scalar>>(),
                                post_op.algorithm);
}

/// Returns true if the elements of `matrix`, or of its transpose, are contiguous. With gaps between
/// its rows, oneDNN multiplies one element at a time.
bool is_dense(const torch::Tensor& matrix) {
  return matrix.is_contiguous() || matrix.t().is_contiguous();
}

/// Returns `left`^T `right` (M, N) of `left` (K, M) and `right` (K, N), with `multiply(x, w)`,
/// which returns x w^T and copies x if it is not contiguous.
template <typename Multiply>
torch::Tensor transposed_product(const torch::Tensor& left, const torch::Tensor& right,
                                 const Multiply& multiply) {
  const auto dense = [](const torch::Tensor& matrix) {
    return is_dense(matrix) ? matrix : matrix.contiguous();
  };
  // Autograd copies a gradient that is not contiguous.
  const auto size_of_transpose = right.numel() + left.size(1) * right.size(1);
  if (left.numel() <= size_of_transpose) return multiply(left.t(), dense(right).t());
  return multiply(right.t(), dense(left).t()).t();
}

struct OneDnnLinear : torch::autograd::Function<OneDnnLinear> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias) {
    // A saved tensor must not be changed in place, and stays in memory.
    context->save_for_backward({weight.requires_grad() ? x : torch::Tensor(),
                                x.requires_grad() ? weight : torch::Tensor()});
    context->saved_data["has_bias"] = bias.has_value();
    return call_one_dnn(x, weight, bias.value_or(torch::Tensor()));
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto inputs = context->get_saved_variables();
    const auto &x = inputs[0], &weight = inputs[1];
    const auto& gradient = output_gradients[0];                   // (..., N)
    const auto rows = gradient.reshape({-1, gradient.size(-1)});  // (M, N)
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const bool is_fast = !torch::GradMode::is_enabled() && can_use_fast_kernels({&gradient});
    const auto product = [&](const torch::Tensor& left, const torch::Tensor& right) {
      return is_fast ? call_one_dnn(left, right, {}) : torch::linear(left, right);
    };
    variable_list gradients(3);
    if (context->needs_input_grad(0)) gradients[0] = product(gradient, weight.t());
    if (context->needs_input_grad(1))
      gradients[1] = transposed_product(rows, x.reshape({-1, x.size(-1)}), product);
    const bool has_bias = context->saved_data["has_bias"].toBool();
    if (has_bias && context->needs_input_grad(2)) gradients[2] = rows.sum(0);
    return gradients;
  }
};

/// Returns `x` W^T + `bias`, whose rows `multiply(product, range)` computes. `x` (..., K), W (N,
/// K).
template <typename Multiply>
torch::Tensor row_product(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias, const Multiply& multiply) {
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  auto y = torch::empty(shape, x.options());  // (..., N)
  const auto contiguous_bias = bias.defined() ? bias.contiguous() : bias;
  const RowProduct product{
      .rows = x.numel() / x.size(-1),
      .columns = x.size(-1),
      .bias = bias.defined() ? contiguous_bias.const_data_ptr<float>() : nullptr,
      .y = y.mutable_data_ptr<float>(),
      .outputs = weight.size(0)};
  const auto rows_per_thread = std::max<int64_t>(1, kElementsPerThread / product.columns);
  in_parallel(product.outputs, rows_per_thread, [&](int64_t begin, int64_t end) {
    multiply(product, RowRange{begin, end});
  });
  return y;
}

FloatRows float_rows(const torch::Tensor& weight) {
  return {.data = weight.const_data_ptr<float>(), .stride = weight.stride(0)};
}

/// Returns std::nullopt for a copy of oneDNN.
std::optional<WeightRows> integer_rows(const PreparedWeight& copy) {
  if (copy.format == WeightFormat::int8)
    return Int8Rows{copy.elements.const_data_ptr<int8_t>(), copy.scales.const_data_ptr<float>()};
  if (copy.format == WeightFormat::int4)
    return Int4Rows{copy.elements.const_data_ptr<uint8_t>(), copy.scales.const_data_ptr<float>()};
  return {};
}

torch::Tensor float_product(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  RECORD_FUNCTION("attend::float_product", c10::ArrayRef<const c10::IValue>({x, weight}));
  const auto contiguous = x.contiguous();
  const auto rows = float_rows(weight);
  return row_product(contiguous, weight, bias, [&](const RowProduct& product, RowRange range) {
    multiply(product, contiguous.const_data_ptr<float>(), rows, range);
  });
}

torch::Tensor integer_product(const torch::Tensor& x, const torch::Tensor& weight,
                              const PreparedWeight& copy, const torch::Tensor& bias) {
  const bool is_int8 = copy.format == WeightFormat::int8;
  RECORD_FUNCTION(is_int8 ? "attend::int8_product" : "attend::int4_product",
                  c10::ArrayRef<const c10::IValue>({x, weight}));
  const auto contiguous = x.contiguous();
  const auto input =
      to_integers(contiguous.const_data_ptr<float>(), x.numel() / x.size(-1), x.size(-1));
  const auto rows = integer_rows(copy).value();
  return row_product(contiguous, weight, bias, [&](const RowProduct& product, RowRange range) {
    if (is_int8)
      multiply(product, input, std::get<Int8Rows>(rows), range);
    else
      multiply(product, input, std::get<Int4Rows>(rows), range);
  });
}

torch::Tensor prepared_linear(const torch::Tensor& x, const torch::Tensor& weight,
                              const PreparedWeight& copy, const torch::Tensor& bias) {
  switch (copy.format) {
    case WeightFormat::packed:
      break;  // by `fast_product`
    case WeightFormat::bf16: {
      const auto y = call_one_dnn(x.to(torch::kBFloat16), copy.elements, {});
      return bias.defined() ? y + bias : y.to(x.scalar_type());  // a sum has the dtype of the bias
    }
    case WeightFormat::int8:
    case WeightFormat::int4:
      return integer_product(x, weight, copy, bias);
  }
  TORCH_CHECK_VALUE(false, "unknown weight format ", static_cast<int>(copy.format));
}

/// Returns true if a product of `rows` rows is faster with the copy than with the weight.
bool is_faster(const PreparedWeight& copy, int64_t rows) {
  switch (copy.format) {
    case WeightFormat::packed:
      return rows > 1 && can_use_one_dnn();  // one row is read faster in the original order
    case WeightFormat::bf16:
      return can_use_one_dnn();
    case WeightFormat::int8:
    case WeightFormat::int4:
      return rows <= kMaxProductRows;
  }
  return false;
}

/// Returns true if `float_product` supports the weight, and the product is limited by reading it.
bool prefers_row_product(int64_t rows, const torch::Tensor& weight) {
  return rows <= kMaxProductRows && weight.scalar_type() == torch::kFloat &&
         weight.stride(1) == 1 && weight.stride(0) >= weight.size(1);
}

/// Returns the copy of `weight` if products of `rows` rows use it, else null.
const PreparedWeight* copy_for(const torch::Tensor& weight, int64_t rows) {
  auto* copy = find_copy(weight);
  return copy != nullptr && is_faster(*copy, rows) && validate(*copy, weight) ? copy : nullptr;
}

bool is_large(int64_t rows, const torch::Tensor& weight) {
  return weight.numel() >= kMinElements || rows * weight.numel() >= kMinMultiplications;
}

/// Returns true if oneDNN is faster than MKL.
bool prefers_one_dnn(int64_t rows, const torch::Tensor& weight) {
  return weight.scalar_type() == torch::kFloat && mkl_is_slow() && is_large(rows, weight) &&
         is_dense(weight) && can_use_one_dnn();
}

torch::Tensor prepacked(const torch::Tensor& weight) {
  // With 1 as the expected number of rows of `x`, oneDNN would keep the order of the elements.
  const c10::SymInt rows_of_x = 16;
  return one_dnn()->reorder.call(weight, rows_of_x);
}

/// Calls `quantize(row, n)` for the rows of `weight` (N, K).
template <typename Quantize>
void for_each_row(const torch::Tensor& weight, const Quantize& quantize) {
  const auto* data = weight.const_data_ptr<float>();
  const auto columns = weight.size(1);
  in_parallel(weight.size(0), /*grain=*/64, [&](int64_t begin, int64_t end) {
    for (auto n = begin; n < end; ++n) quantize(data + n * columns, n);
  });
}

void quantize_int8(const torch::Tensor& weight, PreparedWeight& result) {
  const auto columns = weight.size(1);
  result.elements = torch::empty({weight.size(0), padded_columns(columns)}, torch::kChar);
  result.scales = torch::empty({weight.size(0)});
  auto* elements = result.elements.mutable_data_ptr<int8_t>();
  auto* scales = result.scales.mutable_data_ptr<float>();
  for_each_row(weight, [&](const float* row, int64_t n) {
    scales[n] = to_int8(row, columns, elements + n * padded_columns(columns));
  });
}

void quantize_int4(const torch::Tensor& weight, PreparedWeight& result) {
  const auto columns = weight.size(1);
  result.elements = torch::empty({weight.size(0), int4_row_bytes(columns)}, torch::kByte);
  result.scales = torch::empty({weight.size(0), 2});
  auto* elements = result.elements.mutable_data_ptr<uint8_t>();
  auto* units = result.scales.mutable_data_ptr<float>();
  for_each_row(weight, [&](const float* row, int64_t n) {
    to_int4(row, columns, elements + n * int4_row_bytes(columns), units + 2 * n);
  });
}

bool supports(const torch::Tensor& weight, WeightFormat format) {
  if (!fast_kernels_are_enabled() || !is_plain(weight) || weight.dim() != 2) return false;
  if (weight.is_inference()) return false;  // it has no version, which shows changes
  if (weight.numel() < kMinElements) return false;
  const bool is_float = weight.scalar_type() == torch::kFloat;
  switch (format) {
    case WeightFormat::packed:
      return one_dnn() && ((has_avx512() && is_float) ||
                           (has_avx512_bf16() && weight.scalar_type() == torch::kBFloat16));
    case WeightFormat::bf16:
      return one_dnn() && has_avx512_bf16() && is_float;
    case WeightFormat::int8:
    case WeightFormat::int4:
      return is_float;
  }
  TORCH_CHECK_VALUE(false, "unknown weight format ", static_cast<int>(format));
}

struct FastProduct {
  torch::Tensor y;
  bool has_post_op = false;
};

/// `fast_linear`, with `post_op` if oneDNN computes the product without gradients.
std::optional<FastProduct> fast_product(const torch::Tensor& x, const torch::Tensor& weight,
                                        const torch::Tensor& bias,
                                        std::optional<PostOp> post_op = {}) {
  if (computes_gradients({&weight})) {
    // The optimizer may change the weight in a way that its version does not show.
    const at::TensorBase& owner = weight.is_view() ? weight._base() : weight;
    if (auto* copy = find_copy(owner)) copy->is_valid = false;
  }
  const bool is_inference = can_use_inference_kernels({&x, &weight, &bias});
  const bool is_fast =
      is_inference || (can_use_fast_kernels({&x, &weight, &bias}) && !autocast_dtype(torch::kCPU));
  if (!is_fast || !supports(x, weight, bias)) return {};
  const auto with_post_op = [&](const torch::Tensor& own_weight) {
    return FastProduct{call_one_dnn(x, own_weight, bias, post_op.value_or(PostOp{})),
                       post_op.has_value()};
  };
  const auto rows = x.numel() / x.size(-1);
  if (is_inference) {
    if (const auto* copy = copy_for(weight, rows)) {
      if (copy->format == WeightFormat::packed) return with_post_op(copy->elements);
      return FastProduct{prepared_linear(x, weight, *copy, bias)};
    }
    if (prefers_row_product(rows, weight)) return FastProduct{float_product(x, weight, bias)};
  }
  if (!prefers_one_dnn(rows, weight)) return {};
  return is_inference ? with_post_op(weight) : FastProduct{one_dnn_linear(x, weight, bias)};
}

}  // namespace

bool can_use_one_dnn() {
  return one_dnn() && at::globalContext().userEnabledMkldnn();
}

torch::Tensor one_dnn_linear(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  if (!computes_gradients({&x, &weight, &bias})) return call_one_dnn(x, weight, bias);
  // An autograd function accepts no undefined tensor.
  return OneDnnLinear::apply(x, weight, bias.defined() ? std::make_optional(bias) : std::nullopt);
}

std::optional<WeightRows> weight_rows(const torch::Tensor& weight, int64_t rows) {
  if (!prefers_row_product(rows, weight)) return {};
  const auto* copy = copy_for(weight, rows);
  return copy != nullptr ? integer_rows(*copy) : float_rows(weight);
}

std::optional<torch::Tensor> fast_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                         const torch::Tensor& bias) {
  const auto product = fast_product(x, weight, bias);
  return product ? std::make_optional(product->y) : std::nullopt;
}

torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  const auto y = fast_linear(x, weight, bias);
  return y ? *y : torch::linear(x, weight, bias);
}

torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias, Activation activation) {
  const auto product = fast_product(x, weight, bias, post_op(activation));
  if (!product) return activate(torch::linear(x, weight, bias), activation);
  return product->has_post_op ? product->y : activate(product->y, activation);
}

bool prepare_weight(const torch::Tensor& weight, WeightFormat format) {
  auto* impl = weight.unsafeGetTensorImpl();
  if (dynamic_cast<PreparedWeight*>(impl->get_backend_meta()) != nullptr) {
    impl->set_backend_meta(nullptr);
  }
  if (!weight.defined() || !supports(weight, format)) return false;
  const torch::NoGradGuard no_grad;
  auto result = c10::make_intrusive<PreparedWeight>();
  result->format = format;
  result->data = weight.const_data_ptr();
  result->version = weight._version();
  result->samples = samples_of(weight.detach());
  const auto plain = weight.detach().contiguous();
  switch (format) {
    case WeightFormat::packed:
      result->elements = prepacked(plain);
      break;
    case WeightFormat::bf16:
      result->elements = prepacked(plain.to(torch::kBFloat16));
      break;
    case WeightFormat::int8:
      quantize_int8(plain, *result);
      break;
    case WeightFormat::int4:
      quantize_int4(plain, *result);
      break;
  }
  impl->set_backend_meta(std::move(result));
  return true;
}

}  // namespace attend
