#include "export/export_case.h"
#include "export/user_modules.h"
#include "support/user_operators.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using torch::indexing::Slice;

/// Cases of a Linear layer. Each case has its own forward function, which applies other operators
/// to the output (B, T, 6) of the layer.
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
  with("data_dependent_sizes", [](T y, T, T) {
    const auto mask = y > 0;
    const auto selected = y.masked_select(mask);
    const auto rows = y.index({y.sum(-1) > 0});  // (N, 6)
    return Tensors{
        selected.relu(),         torch::cat({selected, y.flatten()}), y.index({mask}) * 2,
        selected.slice(0, 1, 4), rows.softmax(-1).matmul(rows.t()),   mask.nonzero() + 1};
  });
  with("decomposed", [](T y, T, T) {
    const auto parts = y.tensor_split(3, 1);
    const auto scores = y.matmul(y.slice(1, 0, 7).mT());  // (B, T, min(T, 7))
    auto changed = scores.detach() * 2;
    changed.diagonal(-1, 1, 2).mul_(2);
    const auto features = y.detach() * 2;
    features.unbind(-1)[0].add_(1);
    const auto images = y.unsqueeze(1);  // (B, 1, T, 6)
    return Tensors{parts[0].sum(1) - parts[2].sum(1),
                   torch::cat(y.tensor_split({2, 4}, 1), 1),
                   changed,
                   features,
                   torch::diagonal_scatter(scores, scores.diagonal(2, 1, 2) * 3, 2, 1, 2),
                   scores[0].diag() + scores[0].trace(),
                   y.take_along_dim(std::get<1>(y.sort(1)), 1),
                   torch::max_pool1d(y.mT(), 3, 2, 1, 1, /*ceil_mode=*/true),
                   torch::adaptive_avg_pool1d(y.mT(), 3),
                   torch::adaptive_avg_pool2d(images, {4, 4}),
                   std::get<0>(torch::adaptive_max_pool2d(images, {4, 1}))};
  });
  cases.back().formats.erase("onnx");
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
    return Tensors{y.cumsum(1),     y.sum(at::IntArrayRef{0, 2}),         y.var(-1), y.norm(),
                   y.logsumexp(-1), torch::einsum("bti,bsj->bts", {y, x})};
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

/// Returns a case with special names. A submodule and a parameter of this submodule have the name
/// `name`. A buffer has the name `name` + "2". The input has the name `input_name`.
ExportCase named_case(const char* option, const char* name, std::set<std::string> formats,
                      const char* input_name = "x") {
  torch::nn::Linear outer(4, 6);
  const auto inner = outer->register_module(name, torch::nn::Linear(6, 6));
  const auto scale = inner->register_parameter(name, torch::ones({6}));
  const auto offset = outer->register_buffer(std::string(name) + "2", torch::ones({6}));
  auto made = make_case("UserNames", option, outer, {reals(input_name, {kBatch, kLength, 4})},
                        [=](auto& layer, const Tensors& in) -> Outputs {
                          return inner->forward(layer.forward(in.at(0))) * scale + offset;
                        });
  made.formats = std::move(formats);
  return made;
}

std::vector<ExportCase> named_cases() {
  return {named_case("punctuation", "fc-1", {"torchscript", "pt2", "onnx"}),
          named_case("spaces_and_quotes", "it's a [name]", {"torchscript", "pt2", "onnx"}),
          named_case("input_named_like_a_buffer_in_the_graph", "p_fc_1",
                     {"torchscript", "pt2", "onnx"}, "b_p_fc_12"),
          named_case("keyword_of_python_only", "lambda", {"torchscript", "onnx"}),
          named_case("name_of_python_library", "torch", {"pt2", "onnx"}),
          named_case("keyword", "in", {"onnx"}, "in"),
          named_case("other_alphabets", "\u00e9\u4e2d \"x\"", {"onnx"}, "\u00e9-\u4e2d")};
}

/// Operators that draw random numbers. The tests compare statistics of the outputs. These are
/// accurate only for many elements, so forward repeats its input 500 times along the batch
/// dimension.
std::vector<ExportCase> random_number_cases() {
  std::vector<ExportCase> cases;
  const auto with = [&](const char* option, const auto& run, bool in_onnx = true) {
    cases.push_back(make_case("UserRandom", option, torch::nn::Linear(4, 6),
                              {reals("x", {kBatch, kLength, 4})},
                              [run](auto& layer, const Tensors& in) -> Outputs {
                                const torch::NoGradGuard no_grad;
                                const auto x = (in.at(0) + 0.1 * layer.bias[0]).sigmoid();
                                return run(x.repeat({500, 1, 1}));
                              }));
    cases.back().draws_random_numbers = true;
    if (!in_onnx) cases.back().formats.erase("onnx");
  };
  using T = torch::Tensor;
  with("uniform", [](T x) {
    return Tensors{x + torch::rand_like(x),
                   torch::rand({2000, 2}),
                   torch::rand_like(x, torch::kDouble),
                   torch::rand_like(x, torch::kHalf),
                   torch::rand_like(x, torch::kBFloat16).to(torch::kFloat),
                   torch::empty_like(x).uniform_(-1, 3)};
  });
  with("normal", [](T x) {
    return Tensors{x + torch::randn_like(x),
                   torch::randn({2000, 2}),
                   torch::randn_like(x, torch::kHalf),
                   torch::empty_like(x).normal_(3, 2),
                   at::normal(x, 2.0),
                   at::normal(1.0, x.abs()),
                   at::normal(x, x.abs()),
                   at::normal(1.0, 3.0, {3000})};
  });
  with("bernoulli", [](T x) {
    const auto p = x.clamp(0, 1);
    return Tensors{torch::bernoulli(p), torch::bernoulli(x, 0.3),
                   torch::empty_like(x).bernoulli_(0.7), torch::empty_like(x).bernoulli_(p)};
  });
  with("integers", [](T x) {
    return Tensors{torch::randint(7, {3000}), torch::randint(-2, 3, {3000}),
                   torch::randint_like(x, 9), torch::randint_like(x, -4, 5)};
  });
  with("dropout", [](T x) {
    return Tensors{F::dropout(x, F::DropoutFuncOptions().p(0.3).training(true)),
                   F::dropout(x, F::DropoutFuncOptions().p(1.0).training(true))};
  });
  with("multinomial", [](T x) {
    const auto weights = torch::cat({x, x * 0, x + 1}, -1).flatten(1);
    return Tensors{torch::multinomial(weights, 1), torch::multinomial(weights, 3, true),
                   torch::multinomial(weights, 3),
                   torch::multinomial(torch::tensor({0.0, 1.0, 4.0, 0.0}), 2000, true)};
  });
  with(
      "other_operators",
      [](T x) {
        return Tensors{torch::randperm(9),
                       torch::poisson(x.abs()),
                       torch::empty_like(x).exponential_(2),
                       F::alpha_dropout(x, F::AlphaDropoutFuncOptions().p(0.3).training(true)),
                       F::rrelu(x - 0.5, F::RReLUFuncOptions().training(true)),
                       F::gumbel_softmax(x, F::GumbelSoftmaxFuncOptions())};
      },
      /*in_onnx=*/false);
  return cases;
}

/// Multiplies pairs of elements, as complex numbers, by a complex buffer.
struct Rotation : torch::nn::Module {
  Rotation() { turns = register_buffer("turns", torch::polar(torch::ones({2}), torch::rand({2}))); }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto rotated = torch::view_as_complex(x.unflatten(-1, {2, 2})) * turns;
    return torch::view_as_real(rotated * constant).flatten(-2);
  }

  torch::Tensor turns;
  torch::Tensor constant = torch::polar(torch::ones({2}), torch::rand({2})).conj();
};

/// A module with complex weights, which are real in the ONNX file. .pt2 archives do not support
/// complex constants.
ExportCase complex_weights_case() {
  const auto module = std::make_shared<Rotation>();
  return {.group = "Operator",
          .option = "of_complex_weights",
          .module = module,
          .forward = forward_of(module),
          .inputs = {reals("x", {kBatch, kLength, 4})},
          .formats = {"onnx"}};
}

/// Operators outside of aten. Python, which loads the files of the other formats, does not have
/// these operators.
std::vector<ExportCase> user_operator_cases() {
  user::register_translations();
  const auto with = [](const char* option, const Forward& forward) -> ExportCase {
    return {.group = "Operator",
            .option = option,
            .module = std::make_shared<torch::nn::Module>(),
            .forward = forward,
            .inputs = {reals("x", {kBatch, kLength, 4})},
            .formats = {"onnx"}};
  };
  return {
      with("of_user", [](const Tensors& in) { return user::clip_below(in.at(0), 0.2); }),
      with("of_user_with_two_outputs",
           [](const Tensors& in) {
             return user::bounds(in.at(0) + 1, {1, 2});
           }),
      with("of_user_in_another_domain", [](const Tensors& in) { return user::gelu(in.at(0)) * 2; }),
      complex_weights_case()};
}

}  // namespace

std::vector<ExportCase> user_cases() {
  const auto step = [](auto& module, const Tensors& in) {
    return module.forward(in.at(0), in.at(1), in.at(2));
  };
  user::ConvolutionNet net;
  torch::nn::init::normal_(net->norm1->running_mean);
  torch::nn::init::uniform_(net->norm2->running_var, 0.5, 2.0);
  auto cases =
      joined({user_forward_cases(), named_cases(), random_number_cases(), user_operator_cases()});
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
      make_case("NegativeViews", "plain", user::NegativeViews(), {reals("x", {kBatch, 8})}),
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
