#include "attend/ops/linear.h"

#include "ops/autocast.h"
#include "ops/cpu_features.h"
#include "ops/fast_linear.h"

#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace attend {
namespace {

/// Number of elements of a row that share a scale in `WeightFormat::int4`.
constexpr int64_t kGroup = 32;
/// LibTorch's int8 and int4 kernels require multiples of these numbers of columns and rows.
constexpr int64_t kColumns = 32;
constexpr int64_t kRows = 16;
/// Products of more rows are limited by arithmetic, not by reading the weights. oneDNN computes
/// them faster from the original weights than LibTorch's kernels do from integers.
constexpr int64_t kMaxIntegerRows = 8;
/// Products with smaller weights are limited by the time of a call, which is longer for oneDNN than
/// for MKL.
constexpr int64_t kMinElements = 128 * 1024;
constexpr int64_t kMinMultiplications = 6'000'000;

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, std::string_view,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);
using ReorderLinearWeight = at::Tensor(const at::Tensor&, std::optional<c10::SymInt>);

/// Number of TorchLinearGuards of this thread.
thread_local int torch_linear_guards = 0;

/// Operators of LibTorch that call oneDNN.
struct OneDnn {
  c10::TypedOperatorHandle<LinearPointwise> linear;
  c10::TypedOperatorHandle<ReorderLinearWeight> reorder;
};

/// Returns std::nullopt if LibTorch was built without oneDNN, or if ATTEND_FAST is 0.
const std::optional<OneDnn>& one_dnn() {
  static const auto operators = []() -> std::optional<OneDnn> {
    const auto* fast = std::getenv("ATTEND_FAST");
    if (fast != nullptr && std::string_view(fast) == "0") return {};
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

/// The copy of a weight. It is stored in the weight's tensor.
struct PreparedWeight : c10::BackendMeta {
  WeightFormat format = WeightFormat::packed;
  int64_t rows = 0;        // N
  torch::Tensor elements;  // in an order that depends on the format; int8 and int4: (N padded, K)
  torch::Tensor scales;    // int8: (N padded); int4: scale and offset (K / kGroup, N padded, 2)
  const void* data = nullptr;  // of the weight that was copied
  int64_t version = 0;         // of the weight that was copied
  std::atomic<bool> is_valid = true;

  /// Called if LibTorch copies the metadata of the weight to another tensor, such as
  /// `weight.data()`. This tensor has a version of its own, so it gets no copy.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>& /*self*/) const override {
    return {};
  }
};

/// Returns the copy of `weight`, or null if there is none or if `weight` has changed since.
PreparedWeight* prepared(const at::TensorBase& weight) {
  auto* found = dynamic_cast<PreparedWeight*>(weight.unsafeGetTensorImpl()->get_backend_meta());
  if (found == nullptr || !found->is_valid) return nullptr;
  const bool unchanged =
      found->data == weight.const_data_ptr() && found->version == weight._version();
  return unchanged ? found : nullptr;
}

/// Returns true if `tensor` is a plain tensor on the CPU: not a trace, a batch of vmap, or a dual
/// number.
bool is_plain(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == torch::kStrided && !tensor.is_nested() &&
         !at::isTensorSubclassLike(tensor) && !tensor._fw_grad(/*level=*/0).defined();
}

/// Returns true if the rows of `matrix`, or its columns, are contiguous and do not overlap.
bool is_matrix(const torch::Tensor& matrix) {
  if (matrix.dim() != 2) return false;
  return (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) ||
         (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0));
}

/// Returns true if kernels without derivatives may replace `torch::linear` for these tensors.
bool can_use_fast_kernels(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias) {
  if (!one_dnn() || torch_linear_guards > 0 || !is_plain(x) || !is_plain(weight) ||
      (bias.defined() && !is_plain(bias))) {
    return false;
  }
  const auto type = x.scalar_type();
  const bool types_match = (type == torch::kFloat || type == torch::kBFloat16) &&
                           weight.scalar_type() == type &&
                           (!bias.defined() || bias.scalar_type() == type);
  const bool shapes_match =
      x.dim() > 0 && is_matrix(weight) && x.size(-1) == weight.size(1) &&
      (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
  return types_match && shapes_match && x.numel() > 0 && weight.numel() > 0 &&
         at::globalContext().userEnabledMkldnn() && !autocast_dtype(torch::kCPU) &&
         !torch::jit::tracer::isTracing();
}

torch::Tensor one_dnn_linear(const torch::Tensor& x, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  // oneDNN ignores the strides of the bias.
  const auto optional_bias = bias.defined() ? std::make_optional(bias.contiguous()) : std::nullopt;
  return one_dnn()->linear.call(x, weight, optional_bias, /*attr=*/"none",
                                /*scalars=*/c10::List<std::optional<at::Scalar>>(),
                                /*algorithm=*/"");
}

torch::Tensor prepared_linear(const torch::Tensor& x, const PreparedWeight& weight,
                              const torch::Tensor& bias) {
  if (weight.format == WeightFormat::packed) return one_dnn_linear(x, weight.elements, bias);
  const auto narrow = x.to(torch::kBFloat16);
  torch::Tensor y;
  if (weight.format == WeightFormat::bf16) {
    y = one_dnn_linear(narrow, weight.elements, {});
  } else {
    const auto rows = narrow.reshape({-1, x.size(-1)}).contiguous();  // (rows of x, K)
    y = weight.format == WeightFormat::int8
            ? at::_weight_int8pack_mm(rows, weight.elements, weight.scales)
            : at::_weight_int4pack_mm_for_cpu(rows, weight.elements, kGroup, weight.scales);
    auto shape = x.sizes().vec();
    shape.back() = weight.rows;
    y = y.narrow(1, 0, weight.rows).reshape(shape);  // (..., N)
  }
  return bias.defined() ? y + bias : y.to(x.scalar_type());  // the sum has the dtype of the bias
}

/// Returns true if a product of `rows` rows is faster with the copy than with the weight.
bool is_faster(const PreparedWeight& copy, int64_t rows) {
  switch (copy.format) {
    case WeightFormat::packed:
      return rows > 1;  // one row is read faster in the original order
    case WeightFormat::bf16:
      return true;
    case WeightFormat::int8:
    case WeightFormat::int4:
      return rows <= kMaxIntegerRows;
  }
  return false;
}

bool is_large(int64_t rows, const torch::Tensor& weight) {
  return weight.numel() >= kMinElements || rows * weight.numel() >= kMinMultiplications;
}

torch::Tensor prepacked(const torch::Tensor& weight) {
  // With 1 as the expected number of rows of `x`, oneDNN would keep the order of the elements.
  const c10::SymInt rows_of_x = 16;
  return one_dnn()->reorder.call(weight, rows_of_x);
}

/// Pads the rows of (N, K) with zeros, so that their number is a multiple of kRows.
torch::Tensor padded(const torch::Tensor& weight) {
  const auto missing = (kRows - weight.size(0) % kRows) % kRows;
  return missing == 0 ? weight : torch::constant_pad_nd(weight, {0, 0, 0, missing});
}

void quantize_int8(const torch::Tensor& weight, PreparedWeight& result) {
  const auto rows = padded(weight);
  // Scales are rounded to bfloat16 first, so that the rounding does not add to the error.
  result.scales = (rows.abs().amax(1) / 127).clamp_min(1e-30).to(torch::kBFloat16);  // (N)
  const auto scales = result.scales.to(torch::kFloat).unsqueeze(1);                  // (N, 1)
  result.elements = (rows / scales).round().clamp(-127, 127).to(torch::kChar);       // (N, K)
}

void quantize_int4(const torch::Tensor& weight, PreparedWeight& result) {
  const auto groups = padded(weight).unflatten(1, {-1, kGroup});  // (N, K / kGroup, kGroup)
  const auto smallest = groups.amin(-1);
  const auto largest = groups.amax(-1);
  // The 16 values of a group are offset + scale * (-8 ... 7).
  const auto scale =
      ((largest - smallest) / 15).clamp_min(1e-30).to(torch::kBFloat16).to(torch::kFloat);
  const auto offset = (smallest + 8 * scale).to(torch::kBFloat16).to(torch::kFloat);
  const auto steps = ((groups - offset.unsqueeze(-1)) / scale.unsqueeze(-1)).round().clamp(-8, 7);
  const auto numbers = (steps + 8).to(torch::kInt).flatten(1);  // (N, K)
  result.elements = at::_convert_weight_to_int4pack_for_cpu(numbers, /*innerKTiles=*/1);
  result.scales = torch::stack({scale, offset}, -1)
                      .to(torch::kBFloat16)
                      .transpose(0, 1)
                      .contiguous();  // (K / kGroup, N, 2)
}

bool supports(const torch::Tensor& weight, WeightFormat format) {
  if (!one_dnn() || !is_plain(weight) || weight.dim() != 2) return false;
  if (weight.is_inference()) return false;  // it has no version, which shows changes
  if (weight.numel() < kMinElements) return false;
  const bool is_float = weight.scalar_type() == torch::kFloat;
  switch (format) {
    case WeightFormat::packed:
      return (has_avx512() && is_float) ||
             (has_avx512_bf16() && weight.scalar_type() == torch::kBFloat16);
    case WeightFormat::bf16:
      return has_avx512_bf16() && is_float;
    case WeightFormat::int8:
    case WeightFormat::int4:
      return is_float && weight.size(1) % kColumns == 0;
  }
  TORCH_CHECK_VALUE(false, "unknown weight format ", static_cast<int>(format));
}

}  // namespace

TorchLinearGuard::TorchLinearGuard() {
  ++torch_linear_guards;
}

TorchLinearGuard::~TorchLinearGuard() {
  --torch_linear_guards;
}

std::optional<torch::Tensor> fast_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                         const torch::Tensor& bias) {
  if (torch::GradMode::is_enabled()) {
    // The optimizer may change the weight in a way that its version does not show.
    if (weight.requires_grad()) {
      const at::TensorBase& owner = weight.is_view() ? weight._base() : weight;
      if (auto* copy = prepared(owner)) copy->is_valid = false;
    }
    if (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad())) {
      return std::nullopt;
    }
  }
  if (!can_use_fast_kernels(x, weight, bias)) return std::nullopt;
  const auto rows = x.numel() / x.size(-1);
  if (const auto* copy = prepared(weight)) {
    if (is_faster(*copy, rows)) return prepared_linear(x, *copy, bias);
  }
  const bool prefers_one_dnn =
      x.scalar_type() == torch::kFloat && mkl_is_slow() && is_large(rows, weight);
  if (!prefers_one_dnn) return std::nullopt;
  return one_dnn_linear(x, weight, bias);
}

torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  const auto y = fast_linear(x, weight, bias);
  return y ? *y : torch::linear(x, weight, bias);
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
  result->rows = weight.size(0);
  result->data = weight.const_data_ptr();
  result->version = weight._version();
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
