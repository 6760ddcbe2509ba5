#include "export/export_case.h"

#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <cmath>

/// Modules whose forward reads sizes into C++ numbers.
namespace attend {
namespace {

namespace F = torch::nn::functional;
namespace nn = torch::nn;
using torch::indexing::Slice;
using T = torch::Tensor;

/// A batch that may be empty.
int64_t any_batch() {
  static const auto size = add_dynamic_size({"batch", 0, 9, 3, {1, 4, 2}});
  return size;
}

/// Operators with arguments that forward computes from the sizes of x, the output of a layer, of
/// shape (B, T, 6). y has the first 4 features of x.
std::vector<ExportCase> computed_arguments() {
  std::vector<ExportCase> cases;
  const auto with = [&](const char* option, const auto& run) {
    cases.push_back(make_case("UserReadsSizes", option, nn::Linear(6, 6),
                              {reals("x", {kBatch, kLength, 6})},
                              [run](auto& layer, const Tensors& in) -> Outputs {
                                const auto x = layer.forward(in.at(0));
                                return run(x, x.narrow(2, 0, 4), x.size(0), x.size(1));
                              }));
  };
  using N = int64_t;
  with("view", [](T x, T y, N b, N t) {
    return Tensors{x.view({b, -1}), y.view({b * t, 4}), x.reshape({t, 6, b}),
                   y.reshape({b, t, 2, 2}).transpose(1, 2)};
  });
  with("creation", [](T x, T y, N b, N t) {
    return Tensors{torch::zeros({b, t, 2}), torch::ones({t}) * y.sum(), torch::full({b, 1}, 0.5),
                   x.new_zeros({b, 3}) + 1, torch::full({2}, t),        torch::eye(t)};
  });
  with("arange", [](T x, T, N b, N t) {
    return Tensors{torch::arange(t),
                   torch::arange(0, 2 * t, 2),
                   torch::arange(1.0, 1.0 + static_cast<double>(t)),
                   x + torch::arange(t).unsqueeze(-1),
                   torch::arange(b).flip(0),
                   torch::arange(t - 1, -1, -1)};
  });
  with("linspace", [](T x, T, N, N t) { return x * torch::linspace(0, 1, t).unsqueeze(-1); });
  with("expand", [](T x, T y, N b, N t) {
    return Tensors{y.mean(1, true).expand({b, t, 4}), torch::ones({1, 1, 2}).expand({b, t, -1}),
                   x.mean(1, true).repeat({1, t, 1}), torch::ones({1, 3}).broadcast_to({t, 3})};
  });
  with("narrow", [](T x, T y, N, N t) {
    return Tensors{x.narrow(1, 0, t / 2), y.narrow(1, t / 2, t - t / 2),
                   x.slice(1, t / 3),     y.slice(1, 0, t - 1),
                   x.select(1, t - 1),    x.index({Slice(), Slice(t / 2)})};
  });
  with("pad", [](T x, T y, N, N t) {
    const auto missing = (8 - t % 8) % 8;
    return Tensors{F::pad(x, F::PadFuncOptions({0, 0, 0, missing})),
                   F::pad(y, F::PadFuncOptions({0, 0, t, 1}).value(-1.0))};
  });
  with("padded_to_a_multiple", [](T x, T, N b, N t) {
    const auto padded = (t + 3) / 4 * 4;
    const auto windows = F::pad(x, F::PadFuncOptions({0, 0, 0, padded - t})).view({b, -1, 4, 6});
    return windows.mean(2, true)
        .expand({b, padded / 4, 4, 6})
        .reshape({b, padded, 6})
        .narrow(1, 0, t);
  });
  with("split", [](T x, T y, N, N t) {
    const auto halves = x.split({t / 2, t - t / 2}, 1);
    return Tensors{halves[1].sum(1) - halves[0].sum(1), y.split(t, 1)[0]};
  });
  with("divided_by_sizes", [](T x, T y, N b, N t) {
    return Tensors{x / t,
                   y * (1.0 / static_cast<double>(t)),
                   x.cumsum(1) / static_cast<double>(b * t),
                   y / std::sqrt(static_cast<double>(t)),
                   x * std::sqrt(static_cast<float>(t)),
                   y.sum(1) / static_cast<double>(t),
                   x * (2.0 / static_cast<double>(t + 1)),
                   y * (0.25 * static_cast<double>(t)),
                   x * (-3.0 / std::sqrt(static_cast<double>(b))),
                   x + b};
  });
  with("limited", [](T x, T y, N, N t) {
    return Tensors{x.narrow(1, 0, std::min<N>(t, 7)), y.slice(1, std::max<N>(t - 5, 0)),
                   torch::zeros({std::max<N>(t, 6)}), torch::ones({std::min<N>(t, 512)}).sum()};
  });
  with("quotients", [](T x, T y, N b, N t) {
    return Tensors{
        torch::ones({t * (t + 1) / 2}).cumsum(0), torch::zeros({t / 2 + t / 3}) + y.sum(),
        torch::arange((t + 1) / 2 + (t + 2) / 3), torch::full({b * t / 4}, 2),
        torch::ones({(b / 2) * ((t + 3) / 4)}),   x * (t * (t - 1) / 2 + 1)};
  });
  with("minimum_and_maximum", [](T x, T y, N b, N t) {
    const auto side = std::max(b, t);  // pads x to a square
    return Tensors{x.narrow(1, 0, std::min(b, t)),
                   F::pad(y, F::PadFuncOptions({0, 0, 0, side - t, 0, side - b})),
                   torch::ones({2 * side}), y.slice(0, 0, std::min(b, t)).sum(0)};
  });
  with("root", [](T x, T, N b, N t) {
    const auto side = static_cast<N>(std::sqrt(static_cast<double>(t)));
    return x.narrow(1, 0, side * side).reshape({b, side, side, 6}).mean(2);
  });
  with("remainder", [](T x, T y, N, N t) {
    return Tensors{x.narrow(1, 0, 1 + t % 3 - t % 3), y.narrow(1, 0, t / 4 * 4 + t % 4)};
  });
  with("triangle", [](T x, T, N, N t) {
    const auto mask = torch::ones({t, t}, torch::kBool).tril();
    return x.matmul(x.mT()).masked_fill(mask.logical_not(), -1e9).softmax(-1);
  });
  with("mask", [](T x, T, N, N t) {
    const auto mask = torch::full({t, t}, -1e9).triu(1);
    return (x.matmul(x.mT()) + mask).softmax(-1).matmul(x);
  });
  with("gathered", [](T x, T y, N b, N t) {
    const auto rows = torch::arange(b).unsqueeze(1).expand({b, t});
    return Tensors{x.index({rows, torch::arange(t).flip(0)}),
                   y.index_select(1, torch::arange(0, t, 2))};
  });
  with("heads", [](T x, T y, N b, N t) {
    const auto q = x.view({b, t, 2, 3}).transpose(1, 2);  // (B, 2, T, 3)
    const auto scores = q.matmul(q.mT()) / std::sqrt(3.0);
    return Tensors{scores.softmax(-1).matmul(q).transpose(1, 2).contiguous().view({b, t, 6}), y};
  });
  with("class_token", [](T x, T y, N b, N) {
    const auto token = y.mean({0, 1}, true);
    return torch::cat({token.expand({b, 1, 4}), y}, 1) + x.sum() * 0;
  });
  with("rolled", [](T x, T y, N b, N t) {
    return Tensors{x.roll(t / 2, 1), y.roll({-b, t - 1}, {0, 1}),
                   F::pad(x.transpose(1, 2), F::PadFuncOptions({t / 2, t}).mode(torch::kCircular))};
  });
  with("largest", [](T x, T y, N, N t) {
    return Tensors{std::get<0>(x.topk(std::min<N>(t, 3), 1)), std::get<0>(y.topk((t + 1) / 2, 1))};
  });
  with("pooled", [](T x, T y, N, N t) {
    const auto rows = x.transpose(1, 2);  // (B, 6, T)
    return Tensors{torch::adaptive_avg_pool1d(rows, (t + 1) / 2),
                   torch::adaptive_avg_pool1d(rows, 3),
                   std::get<0>(torch::adaptive_max_pool1d(rows, 2 * t)),
                   torch::adaptive_avg_pool2d(y.unsqueeze(0), {5, 2})};
  });
  with("repeated", [](T x, T y, N b, N t) {
    return Tensors{x.repeat_interleave(t, 2), y.sum({0, 1}).repeat({b, 2, t}), y.tile({t})};
  });
  with("one_hot",
       [](T x, T, N, N t) { return x.mean(2) + F::one_hot(torch::arange(t), t + 1).sum(1); });
  with("assigned", [](T x, T y, N, N t) {
    auto z = x.clone();
    z.slice(1, t / 2).mul_(2);
    z.select(1, t - 1).copy_(y.sum(1).repeat({1, 2}).slice(1, 0, 6));
    return z;
  });
  with("tensors", [](T x, T y, N b, N t) {
    const auto lengths = torch::tensor({t, b, int64_t{3}});
    return Tensors{lengths * 2, x / torch::tensor(t), y * torch::tensor({t - 1}), lengths[0] + 1};
  });
  with("batch_of_matrices", [](T x, T, N b, N t) {
    return torch::bmm(x, x.transpose(1, 2)).view({b * t, t}).sum(1).view({b, t});
  });
  static const auto kAnyLength = add_dynamic_size({"length", 0, 9, 5, {1, 4, 2}});
  cases.push_back(make_case("UserReadsSizes", "possibly_empty", nn::Linear(6, 6),
                            {reals("x", {any_batch(), kAnyLength, 6})},
                            [](auto& layer, const Tensors& in) -> Outputs {
                              const auto x = layer.forward(in.at(0));
                              const auto b = x.size(0), t = x.size(1);
                              return Tensors{x.mean(1),
                                             x.sum({0, 1}),
                                             torch::ones({1, 1, 6}).expand({b, t, -1}),
                                             torch::ones({1, 6}).repeat({b, 1}),
                                             torch::cat({x.new_zeros({b, 1, 6}), x}, 1).cumsum(1),
                                             x.narrow(1, t / 2, t - t / 2).softmax(1),
                                             x.view({b * t, 6}).transpose(0, 1)};
                            }));
  return cases;
}

struct ImagesImpl : nn::Module {
  explicit ImagesImpl(std::function<Outputs(ImagesImpl&, const T&)> function)
      : run(std::move(function)) {}
  Outputs forward(const T& images) { return run(*this, images); }
  nn::Conv2d down =
      register_module("down", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).stride(2).padding(1)));
  nn::Conv2d same = register_module("same", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
  nn::ConvTranspose2d up =
      register_module("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 3, 2).stride(2)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
  nn::Linear head = register_module("head", nn::Linear(4, 5));
  T positions = register_parameter("positions", torch::randn({1, 4, 4, 4}));
  T class_token = register_parameter("class_token", torch::randn({1, 1, 4}));
  std::function<Outputs(ImagesImpl&, const T&)> run;
};
TORCH_MODULE(Images);

/// Networks on images (B, 3, H, W).
std::vector<ExportCase> images() {
  static const auto kHeight = add_dynamic_size({"height", 8, 40, 12, {8, 40, 17}});
  static const auto kWidth = add_dynamic_size({"width", 8, 40, 10, {40, 8, 23}});
  std::vector<ExportCase> cases;
  const auto with = [&](const char* option, std::function<Outputs(ImagesImpl&, const T&)> run) {
    cases.push_back(make_case("UserReadsImageSizes", option, Images(std::move(run)),
                              {reals("images", {kBatch, 3, kHeight, kWidth})},
                              [](auto& net, const Tensors& in) { return net.forward(in.at(0)); }));
  };
  with("classifier", [](ImagesImpl& net, const T& x) {
    const auto y = net.norm(net.down(x)).relu();
    const auto z = (y + net.same(y)).relu();  // (B, 4, H / 2, W / 2)
    return net.head(
        F::adaptive_avg_pool2d(z, F::AdaptiveAvgPool2dFuncOptions(1)).view({x.size(0), -1}));
  });
  with("unet", [](ImagesImpl& net, const T& x) {
    const auto y = net.up(net.same(net.down(x)).relu());  // even sizes
    const auto top = (y.size(2) - x.size(2)) / 2, left = (y.size(3) - x.size(3)) / 2;
    const auto cropped = y.slice(2, top, top + x.size(2)).slice(3, left, left + x.size(3));
    return torch::cat({cropped, x}, 1);
  });
  with("pyramid", [](ImagesImpl& net, const T& x) {
    const auto fine = net.down(x);
    const auto coarse = F::max_pool2d(fine, F::MaxPool2dFuncOptions(2));
    const auto raised =
        F::interpolate(coarse, F::InterpolateFuncOptions()
                                   .size(std::vector<int64_t>{fine.size(2), fine.size(3)})
                                   .mode(torch::kNearest));
    return fine + raised;
  });
  with("interpolated_by_factor", [](ImagesImpl& net, const T& images) {
    const auto x = net.down(images);
    return F::interpolate(x, F::InterpolateFuncOptions()
                                 .scale_factor(std::vector<double>{2, 2})
                                 .mode(torch::kBilinear)
                                 .align_corners(false));
  });
  with("vision_transformer", [](ImagesImpl& net, const T& x) {
    const auto patches = net.down(x);  // (B, 4, H', W')
    const auto b = patches.size(0), h = patches.size(2), w = patches.size(3);
    const auto positions = F::interpolate(net.positions, F::InterpolateFuncOptions()
                                                             .size(std::vector<int64_t>{h, w})
                                                             .mode(torch::kBicubic)
                                                             .align_corners(false));
    const auto tokens = (patches + positions).flatten(2).transpose(1, 2);
    const auto all = torch::cat({net.class_token.expand({b, -1, -1}), tokens}, 1);
    return net.head(torch::scaled_dot_product_attention(all, all, all).select(1, 0));
  });
  with("detection_head", [](ImagesImpl& net, const T& x) {
    const auto y = net.down(x);
    const auto b = y.size(0), h = y.size(2), w = y.size(3);
    const auto grid = torch::stack(torch::meshgrid({torch::arange(h), torch::arange(w)}, "ij"), -1);
    const auto boxes = y.permute({0, 2, 3, 1}).view({b, h * w, 4});
    return torch::cat({boxes.slice(2, 0, 2) + grid.view({1, h * w, 2}), boxes.slice(2, 2).exp()},
                      2);
  });
  with("coordinates", [](ImagesImpl& net, const T& images) {
    const auto x = net.down(images);
    const auto rows = torch::linspace(-1, 1, x.size(2)).view({1, 1, -1, 1});
    const auto columns = torch::linspace(-1, 1, x.size(3)).view({1, 1, 1, -1});
    return torch::cat({x, rows.expand({x.size(0), 1, -1, x.size(3)}),
                       columns.expand({x.size(0), 1, x.size(2), -1})},
                      1);
  });
  return cases;
}

template <typename Layer>
ExportCase recurrent(const char* option, const Layer& layer, bool batch_first) {
  return make_case("UserRecurrentLayer", option, layer,
                   {reals("x", batch_first ? std::vector<int64_t>{kBatch, kLength, 3}
                                           : std::vector<int64_t>{kLength, kBatch, 3})},
                   [](auto& module, const Tensors& in) -> Outputs {
                     return std::get<0>(module.forward(in.at(0)));
                   });
}

struct LoopedCellImpl : nn::Module {
  T forward(const T& x) {  // (B, 3)
    auto state = torch::zeros({x.size(0), 4});
    for (int i = 0; i < 3; ++i) state = cell(x * (i + 1), state);
    return state;
  }
  nn::GRUCell cell = register_module("cell", nn::GRUCell(3, 4));
};
TORCH_MODULE(LoopedCell);

std::vector<ExportCase> recurrent_layers() {
  auto projected = recurrent("lstm_projected", nn::LSTM(nn::LSTMOptions(3, 4).proj_size(2)), false);
  projected.formats = {"torchscript", "pt2"};  // ONNX's LSTM has no projections
  return {
      projected,
      recurrent("lstm", nn::LSTM(3, 4), false),
      recurrent("lstm_both_directions",
                nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true)),
                true),
      recurrent("gru", nn::GRU(nn::GRUOptions(3, 4).batch_first(true)), true),
      recurrent("rnn", nn::RNN(3, 4), false),
      recurrent("rnn_relu",
                nn::RNN(nn::RNNOptions(3, 4).num_layers(2).bidirectional(true).nonlinearity(
                    torch::kReLU)),
                false),
      make_case("UserRecurrentLayer", "cell_in_a_loop", LoopedCell(), {reals("x", {kBatch, 3})})};
}

/// Layers whose batch may be empty.
std::vector<ExportCase> empty_batches() {
  std::vector<ExportCase> cases;
  const auto with = [&](const char* option, const auto& layer, std::vector<int64_t> shape) {
    cases.push_back(make_case("UserEmptyBatch", option, layer, {reals("x", std::move(shape))}));
  };
  const auto with_states = [&](const char* option, const auto& layer, std::vector<int64_t> shape) {
    cases.push_back(make_case("UserEmptyBatch", option, layer, {reals("x", std::move(shape))},
                              [](auto& module, const Tensors& in) -> Outputs {
                                const auto [output, state] = module.forward(in.at(0));
                                return std::vector{output, state};
                              }));
  };
  with("group_norm", nn::GroupNorm(nn::GroupNormOptions(2, 4)), {any_batch(), 4, kLength, 3});
  with_states("gru", nn::GRU(nn::GRUOptions(3, 4).batch_first(true)), {any_batch(), kLength, 3});
  with_states("rnn", nn::RNN(3, 4), {kLength, any_batch(), 3});
  cases.push_back(make_case(
      "UserEmptyBatch", "lstm", nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true)),
      {reals("x", {kLength, any_batch(), 3})}, [](auto& module, const Tensors& in) -> Outputs {
        const auto [output, states] = module.forward(in.at(0));
        return std::vector{output, std::get<0>(states), std::get<1>(states)};
      }));
  return cases;
}

std::vector<ExportCase> transformers() {
  std::vector<ExportCase> cases;
  const auto source = reals("source", {kLength, kBatch, 8});
  const auto target = reals("target", {kMemoryLength, kBatch, 8});
  const auto options = nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(12);
  const auto decoder_options = nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(12);
  cases.push_back(make_case("UserTransformer", "TransformerEncoderLayer",
                            nn::TransformerEncoderLayer(options), {source}));
  // With one position, LibTorch calls contiguous less often, and the trace lacks these calls.
  static const auto kOneOrMore = add_dynamic_size({"length", 1, 16, 1, {2, 9, 5}});
  cases.push_back(make_case("UserTransformer", "TransformerEncoderLayer_at_one_position",
                            nn::TransformerEncoderLayer(options),
                            {reals("x", {kOneOrMore, kBatch, 8})}));
  cases.push_back(make_case("UserTransformer", "TransformerEncoder",
                            nn::TransformerEncoder(nn::TransformerEncoderOptions(options, 2)),
                            {source}));
  cases.push_back(
      make_case("UserTransformer", "TransformerEncoder_masked",
                nn::TransformerEncoder(nn::TransformerEncoderOptions(options, 2)), {source},
                [](auto& module, const Tensors& in) {
                  const auto mask = torch::full({in[0].size(0), in[0].size(0)}, -1e9).triu(1);
                  return module.forward(in.at(0), mask);
                }));
  cases.push_back(make_case(
      "UserTransformer", "TransformerDecoder",
      nn::TransformerDecoder(nn::TransformerDecoderOptions(decoder_options, 2)), {target, source},
      [](auto& module, const Tensors& in) { return module.forward(in.at(0), in.at(1)); }));
  cases.push_back(make_case(
      "UserTransformer", "Transformer",
      nn::Transformer(
          nn::TransformerOptions(8, 2).num_encoder_layers(1).num_decoder_layers(1).dim_feedforward(
              12)),
      {source, target},
      [](auto& module, const Tensors& in) { return module.forward(in.at(0), in.at(1)); }));
  cases.push_back(make_case("UserTransformer", "MultiheadAttention", nn::MultiheadAttention(8, 2),
                            {target, source}, [](auto& module, const Tensors& in) -> Outputs {
                              return module.forward(in.at(0), in.at(1), in.at(1));
                            }));
  cases.push_back(
      make_case("UserTransformer", "MultiheadAttention_masked", nn::MultiheadAttention(8, 2),
                {target, source, bools("padding", {kBatch, kLength})},
                [](auto& module, const Tensors& in) -> Outputs {
                  auto padding = in.at(2).logical_not();
                  padding = padding.logical_and(torch::arange(padding.size(1)) > 0);
                  return std::get<0>(module.forward(in.at(0), in.at(1), in.at(1), padding));
                }));
  cases.push_back(make_case("UserTransformer", "LocalResponseNorm", nn::LocalResponseNorm(3),
                            {reals("x", {kBatch, 4, kLength, 5})}));
  return cases;
}

}  // namespace

std::vector<ExportCase> size_cases() {
  return joined(
      {computed_arguments(), images(), recurrent_layers(), empty_batches(), transformers()});
}

}  // namespace attend
