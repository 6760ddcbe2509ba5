#include "export/export_case.h"
#include "export/user_modules.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using torch::indexing::Slice;

/// Other operators in a user's forward, on the output of Linear, (B, T, 6).
std::vector<ExportCase> user_forward_cases() {
  std::vector<ExportCase> cases;
  const auto with = [&](const char* option, const auto& run) {
    cases.push_back(make_case("UserForward", option, torch::nn::Linear(4, 6),
                              {reals("x", {kBatch, kLength, 4})},
                              [run](auto& layer, const Tensors& in) -> Outputs {
                                return run(layer.forward(in.at(0)), in.at(0), layer.weight);
                              }));
  };
  using T = torch::Tensor;
  with("plain", [](T y, T, T) { return y; });
  with("returns_an_input", [](T y, T x, T) { return Tensors{x, y}; });
  with("returns_an_output_twice", [](T y, T, T) { return Tensors{y, y}; });
  with("returns_a_weight", [](T y, T, T weight) { return Tensors{weight, y}; });
  with("returns_a_scalar", [](T y, T, T) { return y.mean(); });
  with("returns_other_dtypes", [](T y, T, T) {
    return Tensors{y > 0, y.to(torch::kLong), y.to(torch::kDouble), y.argmax(-1)};
  });
  with("in_place", [](T y, T, T) {
    y.add_(1).clamp_min_(0);
    y.select(-1, 0).fill_(7);
    return y;
  });
  with("slices", [](T y, T, T) {
    return Tensors{y.slice(1, 1), y.slice(-1, 0, -1), y.slice(-1, 0, 6, 2), y.select(1, -1),
                   y.narrow(-1, 2, 3)};
  });
  with("clamped_slices", [](T y, T, T) {
    const auto last = y.slice(1, -7);
    const auto heads = last.unsqueeze(1);
    return Tensors{y.slice(1, 3),
                   y.slice(1, 3, 7),
                   y.slice(1, 0, 7).flatten(0, 1),
                   last.transpose(0, 1).contiguous(),
                   last.std(1, /*unbiased=*/false),
                   last.roll(2, 1),
                   std::get<0>(last.sort(1)),
                   torch::scaled_dot_product_attention(heads, heads, heads, {}, 0.0, true)};
  });
  with("indexing", [](T y, T, T) {
    const auto indices = torch::tensor({2, 0}, torch::kLong);
    return Tensors{y.index({Slice(), Slice(), indices}), y.index_select(-1, indices)};
  });
  with("splits", [](T y, T, T) {
    const auto halves = y.chunk(2, -1);
    const auto parts = y.split({1, 5}, -1);
    return Tensors{halves[0] * halves[1], parts[1], torch::stack(y.unbind(-1), 0)};
  });
  with("concatenation", [](T y, T x, T) {
    return Tensors{torch::cat({y, x}, -1), torch::stack({y, -y}, 1)};
  });
  with("shapes", [](T y, T, T) {
    return Tensors{y.flatten(0, 1),
                   y.unflatten(-1, {2, 3}),
                   y.transpose(0, 1),
                   y.permute({2, 0, 1}),
                   y.unsqueeze(1).expand({-1, 3, -1, -1}),
                   y.mT(),
                   y.flip({1}),
                   y.roll(1, -1)};
  });
  with("infinities", [](T y, T, T) {
    const auto infinity = std::numeric_limits<double>::infinity();
    return y.masked_fill(y > 0, -infinity).clamp_max(infinity).softmax(-1).nan_to_num(0.5);
  });
  with("sorting", [](T y, T, T) {
    const auto [values, indices] = y.topk(2, -1);
    return Tensors{values, indices, std::get<0>(y.sort(-1)), std::get<0>(y.max(-1)), y.amax(1)};
  });
  with("string_arguments", [](T y, T, T) {
    return Tensors{torch::gelu(y, "tanh"), torch::div(y, 0.7, "floor"),
                   torch::div(y, 0.7, "trunc")};
  });
  with("padding", [](T y, T, T) {
    return Tensors{F::pad(y, F::PadFuncOptions({1, 2}).value(0.5)),
                   F::pad(y, F::PadFuncOptions({1, 2}).mode(torch::kReflect))};
  });
  with("reductions", [](T y, T x, T) {
    return Tensors{y.cumsum(1), y.sum({0, 2}),   y.var(-1),
                   y.norm(),    y.logsumexp(-1), torch::einsum("bti,bsj->bts", {y, x})};
  });
  with("functions", [](T y, T, T) {
    return y.sigmoid() + y.tanh() * y.erf() - F::softplus(y) / y.tanh().exp() + F::elu(y) +
           F::mish(y) + y.abs().sqrt().log1p() + y.sin() * y.cos() + y.pow(3) + y.sign() +
           torch::hardswish(y);
  });
  with("creation", [](T y, T, T) {
    return torch::where(y > 0, y, torch::full_like(y, 2)) + torch::ones_like(y).tril() +
           y.new_zeros({6});
  });
  with("products", [](T y, T x, T weight) {
    return Tensors{y.matmul(weight), torch::bmm(y.mT(), x), torch::outer(weight[0], weight[1]),
                   y.matmul(weight[0].repeat(2).slice(0, 0, 6))};
  });
  return cases;
}

}  // namespace

std::vector<ExportCase> user_cases() {
  const auto step = [](auto& module, const Tensors& in) {
    return module.forward(in.at(0), in.at(1), in.at(2));
  };
  user::ConvolutionNet net;
  torch::nn::init::normal_(net->norm1->running_mean);
  torch::nn::init::uniform_(net->norm2->running_var, 0.5, 2.0);
  auto cases = user_forward_cases();
  const std::vector<ExportCase> modules{
      make_case("ConvolutionNet", "plain", net, {reals("images", {kBatch, 3, 8, 8})}),
      make_case("ImageNet", "plain", user::ImageNet(),
                {reals("images", {kBatch, 3, kLength, kMemoryLength})}),
      make_case("Pools", "plain", user::Pools(),
                {reals("images", {kBatch, 3, kLength, kMemoryLength})}),
      make_case("SignalNet", "plain", user::SignalNet(), {reals("signals", {kBatch, 2, kLength})}),
      make_case("SignalNet", "strides", user::SignalNet(2),
                {reals("signals", {kBatch, 2, kLength})}),
      make_case("LstmStep", "plain", user::LstmStep(),
                {reals("x", {kBatch, 4}), reals("hidden", {kBatch, 6}), reals("cell", {kBatch, 6})},
                step),
      make_case("TiedAutoencoder", "plain", user::TiedAutoencoder(), {reals("x", {kBatch, 8})}),
      make_case("SharedLayer", "plain", user::SharedLayer(), {reals("x", {kBatch, 8})}),
      make_case("Lstm", "with_state", user::Lstm(),
                {reals("x", {kBatch, kLength, 4}), reals("hidden", {4, kBatch, 5}),
                 reals("cell", {4, kBatch, 5})},
                step),
  };
  cases.insert(cases.end(), modules.begin(), modules.end());
  return cases;
}

}  // namespace attend
