#include "export/operator_case.h"

#include <torch/nn/functional.h>

#include <cmath>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;

/// Returns a tensor of the given shape, with the dtype of `x`. All its elements are distinct.
T weights(const T& x, torch::IntArrayRef shape) {
  return torch::linspace(-1, 1, c10::multiply_integers(shape)).view(shape).to(x.scalar_type());
}

/// Floating point operators. Each case contains several operators, since these cases only test
/// which types the exporter supports for each operator.
void add_functions(OperatorTable& with) {
  with("functions", [](T x) {
    return Tensors{x.exp(),  x.exp2(),    x.expm1(), x.sin(),  x.cos(),   (x * 0.3).tan(),
                   x.sinh(), x.cosh(),    x.tanh(),  x.atan(), x.asinh(), x.erf(),
                   x.erfc(), x.sigmoid(), x.abs(),   -x,       x.sign(),  x.square()};
  });
  with("functions_of_fractions", [](T x) {
    const auto part = x.sigmoid();
    return Tensors{part.log(),
                   part.log2(),
                   part.log10(),
                   part.log1p(),
                   part.sqrt(),
                   part.rsqrt(),
                   part.asin(),
                   part.acos(),
                   (part + 1.5).acosh(),
                   (part * 0.9).atanh(),
                   part.logit(0.2),
                   part.reciprocal(),
                   torch::logaddexp(x, part),
                   torch::logaddexp2(x, part),
                   torch::atan2(x, part)};
  });
  with("rounding", [](T x) {
    return Tensors{x.floor(), x.ceil(), x.round(), x.trunc(), x.frac(), (x * 64).round(-1)};
  });
  with("activations", [](T x) {
    return Tensors{x.relu(),
                   F::relu6(x * 5),
                   F::silu(x),
                   torch::gelu(x),
                   torch::gelu(x, "tanh"),
                   F::softplus(x),
                   F::logsigmoid(x),
                   F::mish(x),
                   torch::leaky_relu(x, 0.2),
                   torch::elu(x),
                   torch::celu(x, 0.7),
                   torch::selu(x),
                   torch::hardsigmoid(x),
                   torch::hardswish(x),
                   torch::hardtanh(x, -0.5, 0.8),
                   torch::hardshrink(x),
                   torch::softshrink(x),
                   torch::threshold(x, 0.1, 20),
                   torch::glu(x),
                   torch::prelu(x, torch::full({1}, 0.3).to(x.scalar_type()))};
  });
  with("softmax", [](T x) { return Tensors{x.softmax(-1), x.log_softmax(-1)}; });
  with("divisions", [](T x) {
    const auto other = x.abs() + 1;
    const auto whole = (x * 4).round();  // so that floor does not depend on rounding errors
    return Tensors{x / other, torch::div(whole, 0.75, "floor"), torch::div(whole, 0.75, "trunc"),
                   x.remainder(other), x.fmod(other)};
  });
  with("powers", [](T x) { return Tensors{x.pow(2), x.abs().pow(0.7), x.abs().pow(x.abs())}; });
  with("reductions", [](T x) {
    return Tensors{x.sum(-1),       x.mean(1),       x.prod(-1), x.cumsum(1),      x.logsumexp(-1),
                   x.norm(2, {-1}), x.norm(1, {-1}), x.amax(1),  x.amin(-1),       x.argmax(-1),
                   x.argmin(-1),    x.var(-1, true), x.any(-1),  x.count_nonzero()};
  });
  with("min_max", [](T x) { return x.max(-1); });
  with("parts", [](T x) {
    return Tensors{x.tril(),
                   x.flip({-1}),
                   x.roll(1, -1),
                   torch::pad(x, {1, 2}, "constant", 3),
                   torch::pad(x, {1, 2}, "reflect"),
                   torch::pad(x, {1, 2}, "replicate"),
                   x.masked_select(x > 0),
                   x.index_select(-1, torch::tensor({2, 0})),
                   torch::where(x > 0, x, -x),
                   x.masked_fill(x > 0, 2),
                   x.nan_to_num(),
                   x.isfinite(),
                   x.isnan()};
  });
  // The squares of many elements of `large` overflow float16.
  with("reductions_of_large", [](T x) {
    const auto large = (x * 4).round() * 64;
    return Tensors{large.std(-1, true),
                   large.norm(2, {-1}),
                   large.norm(3, {-1}),
                   std::get<0>(torch::std_mean(large, false)),
                   large.mean(-1),
                   torch::cosine_similarity(large, large.flip({-1}), -1),
                   torch::pairwise_distance(large, large.flip({-1}))};
  });
  // The exponentials and the sums of many elements of these inputs overflow float16.
  with("exponentials_of_large", [](T x) {
    const auto large = (x * 4).round() * 8;
    return Tensors{large.logsumexp(-1),
                   large.logsumexp({1, 2}),
                   large.softmax(-1),
                   large.log_softmax(-1),
                   torch::softplus(large),
                   torch::log_sigmoid(large),
                   torch::mish(large),
                   torch::elu(large),
                   torch::celu(large),
                   torch::selu(large),
                   torch::logaddexp(large, large.flip({-1})),
                   torch::logaddexp2(large, large.flip({-1}))};
  });
  with("long_rows", [](T x) {
    const auto row = (x.select(-1, 0).abs() + 1).repeat({1, 4096}) * 16;  // (B, 4096 * T)
    return Tensors{row.mean(-1), row.softmax(-1) * 4096, (row / 16).logsumexp(-1),
                   torch::layer_norm(x.repeat({1, 1, 32}) * 300, {192})};
  });
  with("large_numbers", [](T x) {
    const auto large = (x.sign() + 2) * 300;  // 300 or more, so that products overflow float16
    return Tensors{(large * 60).logsumexp(-1),
                   torch::gelu(large),
                   torch::gelu(large, "tanh"),
                   torch::addcmul(large, large, large, 0.01),
                   torch::addcdiv(large, large, large / 90000, 1e-3),
                   torch::lerp(large * -60, large * 50, 0.25),
                   torch::layer_norm(large * x, {6}),
                   torch::expm1(x * 0.001),
                   torch::log1p(large)};
  });
  with("attention_with_the_lowest_mask", [](T x) {
    const auto lowest = x.scalar_type() == torch::kHalf ? -65504.0 : -3e38;
    const auto mask = torch::where(x.select(-1, 0) > 0.2, 0.0, lowest).type_as(x).unsqueeze(1);
    return torch::scaled_dot_product_attention(x * 4, x * 4, x, mask);
  });
  with("scatter_add", [](T x) {
    const auto indices = torch::zeros_like(x, torch::kLong);
    return Tensors{x.scatter_add(-1, indices, x),
                   x.index_add(-1, torch::tensor({2, 0, 2}), x.narrow(-1, 0, 3)),
                   torch::zeros_like(x).index_put({torch::zeros({1}, torch::kLong)},
                                                  x.slice(0, 0, 1), /*accumulate=*/true)};
  });
  with("sorting", [](T x) { return (x + torch::ones_like(x).cumsum(-1) * 8).sort(-1, true); });
  with("products", [](T x) {
    return Tensors{torch::linear(x, weights(x, {3, 6}), weights(x, {3})),
                   x.select(1, 0).matmul(weights(x, {6, 2})),
                   torch::einsum("bti,ij->btj", {x, weights(x, {6, 2})}), torch::bmm(x, x.mT()),
                   torch::scaled_dot_product_attention(x, x, x)};
  });
  with("normalization", [](T x) {
    return Tensors{torch::layer_norm(x, {6}), torch::rms_norm(x, {6}),
                   torch::group_norm(x.mT(), 2)};
  });
}

void add_layers(OperatorTable& with) {
  with("convolution", [](T x) {
    return Tensors{torch::conv1d(x.mT(), weights(x, {4, 6, 1}), weights(x, {4})),
                   torch::conv_transpose1d(x.mT(), weights(x, {6, 2, 1}), weights(x, {2}))};
  });
  with("pooling", [](T x) {
    return Tensors{torch::max_pool1d(x, 2), torch::avg_pool1d(x, 2),
                   torch::adaptive_avg_pool1d(x, 4)};
  });
  with("resizing", [](T x) {
    return Tensors{torch::upsample_nearest1d(x, {13}), torch::upsample_linear1d(x, {9}, true)};
  });
  with("recurrent", [](T x) {
    const auto small = x * 0.1;
    const auto state = small.sum(1).narrow(-1, 0, 3).unsqueeze(0);
    return torch::gru(small, state, {weights(x, {9, 6}), weights(x, {9, 3})}, false, 1, 0.0, false,
                      false, /*batch_first=*/true);
  });
}

/// Operators that all integer types support.
template <torch::Dtype dtype>
void add_integers(OperatorTable& with) {
  with("arithmetic", [](T given) {
    const auto x = given.abs().to(dtype);
    return Tensors{x + x, x - x.flip({-1}), x * x, x + 1, x * 2, x.square(), x.pow(3), -x};
  });
  with("divisions", [](T given) {
    const auto x = given.abs().to(dtype);
    const auto other = x.flip({-1}) + 1;
    return Tensors{x / other,
                   torch::div(x, other, "floor"),
                   torch::div(x, other, "trunc"),
                   torch::floor_divide(x, 4),
                   x.remainder(other),
                   x.fmod(other)};
  });
  with("functions", [](T given) {
    const auto x = given.abs().to(dtype);
    return Tensors{x.exp(),
                   x.sqrt(),
                   x.log1p(),
                   x.sigmoid(),
                   x.abs(),
                   x.sign(),
                   x.relu(),
                   x.floor(),
                   x.trunc(),
                   x.clamp(1, 5),
                   torch::maximum(x, x.flip({-1})),
                   torch::minimum(x, x.flip({-1})),
                   x.clamp_min(2)};
  });
  with("comparisons", [](T given) {
    const auto x = given.abs().to(dtype);
    const auto other = x.flip({-1});
    return Tensors{
        x == other,      x != other,           x<other, x <= other, x> 3, x >= 3,
        x < 0.5,         x.logical_and(other), x.logical_not(),           x.bitwise_and(other),
        x.bitwise_or(3), x.bitwise_xor(other), x.bitwise_not(),           x.isnan(),
        x.isfinite()};
  });
  with("selection", [](T given) {
    const auto x = given.abs().to(dtype);
    return Tensors{torch::where(given > 0, x, x + 1), x.masked_fill(given > 0, 7),
                   x.masked_select(given > 0), x.index_select(0, torch::tensor({0, 0})),
                   torch::bucketize(x, torch::tensor({1, 3}).to(dtype))};
  });
  with("reductions", [](T given) {
    const auto x = given.abs().to(dtype);
    return Tensors{x.sum(),
                   x.sum(-1),
                   x.prod(-1) * 0,
                   x.cumsum(-1),
                   x.max(),
                   x.amin(-1),
                   x.any(-1),
                   x.all(),
                   x.count_nonzero(),
                   x.sum(-1, false, dtype),
                   x.mean(-1, false, torch::kFloat)};
  });
  with("min_max", [](T given) { return (given.abs().to(dtype) % 5).max(-1); });
  with("parts", [](T given) {
    const auto x = given.abs().to(dtype);
    return Tensors{x.tril(),
                   x.flip({-1}),
                   torch::pad(x, {1, 2}, "constant", 3),
                   x.unsqueeze(1).expand({-1, 2, -1}),
                   torch::cat({x, x}, 0),
                   x.slice(0, 0, 1),
                   x.repeat({1, 2}),
                   x.gather(1, torch::zeros_like(given)),
                   x.to(torch::kFloat),
                   x.to(torch::kBool)};
  });
  with("scatter", [](T given) {
    const auto x = given.abs().to(dtype);
    const auto indices = torch::zeros_like(given);
    return Tensors{x.scatter(1, indices, x * 0), x.scatter_add(1, indices, x),
                   x.index_add(0, torch::zeros({1}, torch::kLong), x.slice(0, 0, 1))};
  });
}

template <torch::Dtype dtype>
std::vector<ExportCase> of_integers(const char* suffix) {
  OperatorTable with(integers(), suffix);
  add_integers<dtype>(with);
  return with.take();
}

std::vector<ExportCase> of_floats(const char* suffix, torch::Dtype dtype) {
  OperatorTable with(floats(), suffix, dtype);
  with("numbers", [](T x) {
    const auto small = x / 8;  // so that small * 1e5 is finite in float16
    return Tensors{small * 1e5, small * 1e5 * 0, small / 1e-5,
                   x + 0.1,     x * 0.1,         torch::addcmul(x, small, x * 0, 1e5)};
  });
  add_functions(with);
  add_layers(with);
  return with.take();
}

/// Operators on bools, which LibTorch treats as 0 and 1 in arithmetic.
std::vector<ExportCase> of_bools() {
  OperatorTable with(floats(), "_of_bools");
  with("min_max", [](T x) {
    return Tensors{(x > 0).amax(1), (x > 0).max(), torch::minimum(x > 0, x < 1)};
  });
  with("comparisons", [](T x) {
    return Tensors{(x > 0) < (x < 1), (x > 0) >= (x < 1), (x > 0) != (x < 1)};
  });
  with("parts", [](T x) {
    return Tensors{
        (x > 0).tril(),           torch::pad(x > 0, {1, 2}), (x > 0).masked_fill(x > 1, 0),
        (x > 0).to(torch::kHalf), (x > 0).cumsum(1),         (x > 0).prod(-1)};
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> type_operators() {
  return joined({of_floats("_of_float16", torch::kHalf),
                 of_floats("_of_bfloat16", torch::kBFloat16),
                 of_floats("_of_float64", torch::kDouble), of_integers<torch::kByte>("_of_uint8"),
                 of_integers<torch::kChar>("_of_int8"), of_integers<torch::kShort>("_of_int16"),
                 of_integers<torch::kInt>("_of_int32"), of_bools()});
}

}  // namespace attend
