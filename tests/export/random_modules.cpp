#include "export/export_case.h"

#include <fmt/format.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

/// Modules of random layers and operators that read sizes into C++ numbers, as people write them.
namespace attend {
namespace {

namespace F = torch::nn::functional;
namespace nn = torch::nn;
using T = torch::Tensor;

constexpr int64_t kWidth = 8;

/// Adds a dynamic size with random bounds up to `max` and returns its placeholder.
int64_t draw_size(const char* name, int64_t max) {
  const auto least = draw_between(1, 4);
  const auto largest = draw_between(least + 4, max);  // .pt2 needs >= 3
  const auto any = [&] { return draw_between(least, largest); };
  return add_dynamic_size({name, least, largest, any(), {any(), any(), any()}});
}

/// A part of forward: computes a new x.
using Part = std::function<T(const T& x)>;

/// A module whose forward consists of parts.
struct RandomNetImpl : nn::Module {
  /// Registers a layer under the next free name.
  template <typename Layer>
  Layer add(Layer layer) {
    return register_module(fmt::format("layer{}", children().size()), layer);
  }
  T add_parameter(at::IntArrayRef sizes) {
    return register_parameter(fmt::format("parameter{}", parameters(false).size()),
                              torch::randn(sizes) / 3);
  }
  Outputs forward(const Tensors& in) {
    auto x = embedding.is_empty() ? in[0] : embedding(in[0]);
    for (const auto& part : parts) x = part(x);
    // Without the addend, the outputs could be the rounding errors of differences.
    return std::vector<T>{x + 1, x.mean(1) + 1};
  }

  nn::Embedding embedding = nullptr;  ///< null if the input is not tokens
  std::vector<Part> parts;
};
TORCH_MODULE(RandomNet);

/// Returns a new part with layers of `net`. `a` is a number from 1 to 7.
using DrawPart = Part (*)(RandomNetImpl& net, int64_t a);

nn::Linear add_linear(RandomNetImpl& net, int64_t in = kWidth, int64_t out = kWidth) {
  return net.add(nn::Linear(in, out));
}

/// Weighted means of the positions of x: (B, T, E); scores: (B, T, T).
T mix(const T& scores, const T& x) {
  return torch::softmax(scores, -1).matmul(x);
}

/// Pads x: (B, T, E) with zeros to a multiple of `n` positions.
T padded_to_multiple(const T& x, int64_t n) {
  return F::pad(x, F::PadFuncOptions({0, 0, 0, (n - x.size(1) % n) % n}));
}

/// Calls `layer` with (B, E, T) instead of (B, T, E).
template <typename Layer>
T with_channels_first(Layer& layer, const T& x) {
  return layer(x.transpose(1, 2)).transpose(1, 2);
}

T resized(const T& x, int64_t length) {
  return F::interpolate(x.transpose(1, 2), F::InterpolateFuncOptions()
                                               .size(std::vector<int64_t>{length})
                                               .mode(torch::kLinear)
                                               .align_corners(false))
      .transpose(1, 2);
}

/// Parts for sequences (B, T, E), for any B and T of 1 or more. None of them amplifies rounding
/// errors much: the norms of nearly equal numbers would, with a smaller eps. The results have at
/// most T + 7 positions.
constexpr std::array<DrawPart, 59> kSequenceParts{{
    [](RandomNetImpl& net, int64_t) -> Part {
      return [layer = add_linear(net)](const T& x) mutable { return layer(x).tanh(); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // attention with heads of computed sizes
      return [layer = add_linear(net, kWidth, 3 * kWidth)](const T& x) mutable {
        const auto heads = layer(x).view({x.size(0), x.size(1), 3, 2, -1}).permute({2, 0, 3, 1, 4});
        const auto y = torch::scaled_dot_product_attention(heads[0], heads[1], heads[2]);
        return y.transpose(1, 2).reshape({x.size(0), x.size(1), kWidth});
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // class token
      return [token = net.add_parameter({1, 1, kWidth})](const T& x) {
        return torch::cat({token.expand({x.size(0), 1, kWidth}), x}, 1);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // sinusoidal positions
      return [](const T& x) {
        const auto angles = torch::arange(x.size(1), torch::kFloat).unsqueeze(1) *
                            torch::arange(1, kWidth / 2 + 1) / 10;
        return x + torch::cat({angles.sin(), angles.cos()}, 1) / 2;
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // learned positions
      auto layer = net.add(nn::Embedding(256, kWidth));
      return [layer](const T& x) mutable {
        return x + layer(torch::arange(x.size(1), torch::kLong)).tanh();
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // causal mask of a computed size
      return [](const T& x) {
        const auto mask = torch::full({x.size(1), x.size(1)}, -1e4).triu(1);
        return mix(x.bmm(x.transpose(1, 2)) / std::sqrt(x.size(2)) + mask, x);
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return padded_to_multiple(x, a); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return x.narrow(1, 0, x.size(1) - x.size(1) / (a + 1)); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {  // means of windows
      return [a](const T& x) {
        return padded_to_multiple(x, a).view({x.size(0), -1, a, kWidth}).mean(2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return resized(x, (x.size(1) + 1) / 2); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return resized(x, x.size(1) + a); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(
          nn::LSTM(nn::LSTMOptions(kWidth, kWidth / 2).batch_first(true).bidirectional(true)));
      return [layer](const T& x) mutable { return std::get<0>(layer(x)); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::GRU(nn::GRUOptions(kWidth, kWidth).num_layers(2)));
      return [layer](const T& x) mutable {
        return std::get<0>(layer(x.transpose(0, 1))).transpose(0, 1);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // with an initial state of a computed size
      auto layer = net.add(nn::RNN(nn::RNNOptions(kWidth, kWidth).batch_first(true)));
      return [layer](const T& x) mutable {
        return std::get<0>(layer(x, torch::full({1, x.size(0), kWidth}, 0.1)));
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // a cell in a loop over a fixed number of steps
      auto cell = net.add(nn::GRUCell(kWidth, kWidth));
      return [cell](const T& x) mutable {
        auto state = torch::zeros({x.size(0), kWidth});
        for (int step = 0; step < 3; ++step) state = cell(x.mean(1), state);
        return x + state.unsqueeze(1);
      };
    },
    [](RandomNetImpl& net, int64_t a) -> Part {
      auto layer = net.add(nn::Conv1d(
          nn::Conv1dOptions(kWidth, kWidth, 3).stride(1 + a % 2).padding(a).dilation(a)));
      return [layer](const T& x) mutable { return with_channels_first(layer, x).tanh(); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(
          nn::ConvTranspose1d(nn::ConvTranspose1dOptions(kWidth, kWidth, 2).stride(2).groups(2)));
      return [layer](const T& x) mutable {
        const auto doubled = with_channels_first(layer, x);
        return doubled.slice(1, 0, x.size(1) + 1);
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return F::avg_pool1d(x.transpose(1, 2),
                             F::AvgPool1dFuncOptions(2 * a + 1).padding(a).stride(1 + a % 2))
            .transpose(1, 2);
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return F::max_pool1d(
                   x.transpose(1, 2),
                   F::MaxPool1dFuncOptions(2 * a + 1).padding(a).stride(2).ceil_mode(a % 2 == 0))
            .transpose(1, 2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // running means
      return [](const T& x) {
        return x.cumsum(1) / torch::arange(1, x.size(1) + 1).view({1, x.size(1), 1});
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // a mean with a division by a size
      return [](const T& x) { return x - x.sum(1, true) / x.size(1); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::MultiheadAttention(kWidth, 2));
      return [layer](const T& x) mutable {
        const auto y = x.transpose(0, 1);
        return x + std::get<0>(layer(y, y, y)).transpose(0, 1);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::TransformerEncoderLayer(
          nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(16)));
      return
          [layer](const T& x) mutable { return layer(x.transpose(0, 1)).transpose(0, 1).tanh(); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {  // positions in another order
      return [a](const T& x) {
        return x.index_select(1, (torch::arange(x.size(1)) * a).remainder(x.size(1)));
      };
    },
    [](RandomNetImpl&, int64_t) -> Part { return [](const T& x) { return x.flip(1); }; },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return torch::cat(
            {x, torch::full({x.size(0), 1, kWidth}, 1 / static_cast<double>(x.size(1)))}, 1);
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return x.narrow(1, 0, std::min<int64_t>(x.size(1), a)); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return F::pad(x, F::PadFuncOptions({0, 0, a, a})).unfold(1, 2 * a + 1, 1).mean(-1);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::GroupNorm(nn::GroupNormOptions(2, kWidth).eps(0.1)));
      return [layer](const T& x) mutable { return with_channels_first(layer, x.tanh()); };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // the last position
      return [](const T& x) { return x + x.select(1, x.size(1) - 1).unsqueeze(1).tanh(); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return std::get<0>(x.topk(std::min<int64_t>(x.size(1), a), 1)) + x.mean(1, true);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return torch::einsum("bte,bse->bts", {x.tanh(), x.tanh()}).matmul(x.tanh()) /
               (x.size(1) * kWidth);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return x.repeat({1, 2, 1}).slice(1, 1, x.size(1) + 1); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::BatchNorm1d(kWidth));
      return [layer](const T& x) mutable {
        return layer(x.reshape({-1, kWidth})).view({x.size(0), x.size(1), kWidth});
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return x +
               F::one_hot((torch::arange(x.size(1)) / a).floor().to(torch::kLong).remainder(kWidth),
                          kWidth);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // sums of pairs of positions
      return [](const T& x) {
        const auto index = torch::arange(x.size(1)).div(2, "floor").view({1, x.size(1), 1});
        return torch::zeros({x.size(0), (x.size(1) + 1) / 2, kWidth})
            .scatter_add(1, index.expand({x.size(0), x.size(1), kWidth}), x / 2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // scores by distance
      return [](const T& x) {
        const auto at = torch::arange(x.size(1), torch::kFloat);
        const auto grid = torch::meshgrid({at, at}, "ij");
        return mix(-(grid[0] - grid[1]).abs() / x.size(1), x);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return (x - x.mean(1, true)) / (1 + x.std(1, false, true)); };
    },
    [](RandomNetImpl&, int64_t) -> Part { return [](const T& x) { return x.softmax(1) * 2; }; },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return (x - x.logsumexp({1}, true)) / 2; };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        const auto late = torch::arange(x.size(1)) >= (x.size(1) + 1) / 2;
        return x.masked_fill(late.view({1, -1, 1}), 0.25);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        const auto first = torch::arange(x.size(1)).unsqueeze(-1) < x.size(1) - 1;
        return torch::where(first, x, -x);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // convolution over positions and channels
      auto layer = net.add(nn::Conv2d(nn::Conv2dOptions(1, 2, 3).padding(1)));
      return [layer](const T& x) mutable {
        return layer(x.view({x.size(0), 1, x.size(1), -1})).mean(1).tanh();
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return x.split_with_sizes({(x.size(1) + 1) / 2, x.size(1) / 2}, 1).at(0);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        const auto before = torch::ones({x.size(1), x.size(1)}).tril() / x.size(1);
        return before.expand({x.size(0), x.size(1), x.size(1)}).bmm(x);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // halves of the channels, swapped
      return [](const T& x) {
        return x.reshape({x.size(0), x.size(1), 2, kWidth / 2}).flip(2).reshape(x.sizes());
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return F::local_response_norm(x.transpose(1, 2), F::LocalResponseNormFuncOptions(3))
            .transpose(1, 2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return x + F::adaptive_avg_pool1d(x.transpose(1, 2), F::AdaptiveAvgPool1dFuncOptions(1))
                       .transpose(1, 2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return x * torch::linspace(0, 1, x.size(1)).unsqueeze(1); };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return (x + x.roll(1, 1)) / 2; };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return mix(torch::eye(x.size(1)) * 3, x); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return x.slice(1, 0, x.size(1), a); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // pairs of positions side by side
      return [layer = add_linear(net, 2 * kWidth, kWidth)](const T& x) mutable {
        return layer(padded_to_multiple(x, 2).reshape({x.size(0), -1, 2 * kWidth})).tanh();
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::Bilinear(kWidth, kWidth, kWidth));
      return [layer](const T& x) mutable {
        return layer(x.tanh(), x.mean(1, true).expand_as(x).contiguous()).tanh();
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::LayerNorm(nn::LayerNormOptions({kWidth}).eps(0.1)));
      return [layer](const T& x) mutable { return (x + layer(x.tanh())) / 2; };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::PReLU());
      return [layer](const T& x) mutable { return layer(x); };
    },
    [](RandomNetImpl&, int64_t a) -> Part {  // one of several functions
      constexpr std::array<T (*)(const T&), 7> kFunctions{
          [](const T& x) { return x.sin(); },        [](const T& x) { return F::gelu(x); },
          [](const T& x) { return F::softplus(x); }, [](const T& x) { return x.abs().sqrt(); },
          [](const T& x) { return x.erf(); },        [](const T& x) { return F::elu(x); },
          [](const T& x) { return x.clamp(-1, 1); },
      };
      return kFunctions.at(static_cast<std::size_t>(a) - 1);
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return x * torch::cosine_similarity(x, x.mean(1, true).expand(x.sizes()), -1, 1e-2)
                       .unsqueeze(-1);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // a batch of scores as a 0-dimensional scale
      return [](const T& x) { return x / (1 + x.square().sum() / x.numel()); };
    },
}};

constexpr int64_t kChannels = 4;

T resized(const T& x, int64_t height, int64_t width, bool is_smooth) {
  auto options = F::InterpolateFuncOptions().size(std::vector<int64_t>{height, width});
  return is_smooth ? F::interpolate(x, options.mode(torch::kBilinear).align_corners(false))
                   : F::interpolate(x, options.mode(torch::kNearest));
}

/// Pads x: (B, C, H, W) with zeros to multiples of `n`.
T image_padded_to_multiple(const T& x, int64_t n) {
  return F::pad(x, F::PadFuncOptions({0, (n - x.size(3) % n) % n, 0, (n - x.size(2) % n) % n}));
}

/// Parts for images (B, C, H, W), for any B, H and W of 1 or more.
constexpr std::array<DrawPart, 24> kImageParts{{
    [](RandomNetImpl& net, int64_t a) -> Part {
      auto layer = net.add(nn::Conv2d(
          nn::Conv2dOptions(kChannels, kChannels, 3).padding(1).stride(1 + a % 2).groups(2)));
      return [layer](const T& x) mutable { return layer(x).tanh(); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // residual block
      auto first = net.add(nn::Conv2d(nn::Conv2dOptions(kChannels, 6, 3).padding(1)));
      auto norm = net.add(nn::BatchNorm2d(6));
      auto second = net.add(nn::Conv2d(nn::Conv2dOptions(6, kChannels, 1)));
      return [=](const T& x) mutable { return (x + second(norm(first(x)).relu())).tanh(); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::GroupNorm(nn::GroupNormOptions(2, kChannels).eps(0.1)));
      return [layer](const T& x) mutable { return (x + layer(x).tanh()) / 2; };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return F::max_pool2d(x,
                             F::MaxPool2dFuncOptions(3).stride(2).padding(1).ceil_mode(a % 2 == 0));
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return F::avg_pool2d(
            x,
            F::AvgPool2dFuncOptions(3).stride(1 + a % 2).padding(1).count_include_pad(a % 3 == 0));
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        return resized(x, (x.size(2) + 1) / 2, (x.size(3) + a) / 2, a % 2 == 0);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // U-Net: down, up, crop, skip connection
      auto down = net.add(nn::Conv2d(nn::Conv2dOptions(kChannels, kChannels, 2).stride(2)));
      auto up = net.add(
          nn::ConvTranspose2d(nn::ConvTranspose2dOptions(kChannels, kChannels, 2).stride(2)));
      auto joined = net.add(nn::Conv2d(nn::Conv2dOptions(2 * kChannels, kChannels, 1)));
      return [=](const T& x) mutable {
        const auto raised = up(down(image_padded_to_multiple(x, 2)).tanh());
        const auto cropped = raised.narrow(2, 0, x.size(2)).narrow(3, 0, x.size(3));
        return joined(torch::cat({x, cropped}, 1)).tanh();
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) { return image_padded_to_multiple(x, a); };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::Conv2d(nn::Conv2dOptions(kChannels, 4 * kChannels, 1)));
      return [layer](const T& x) mutable {
        return F::pixel_shuffle(layer(x).tanh(), F::PixelShuffleFuncOptions(2))
            .slice(2, 0, x.size(2) + 1)
            .slice(3, 0, x.size(3) + 1);
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {
      auto layer = net.add(nn::Conv2d(nn::Conv2dOptions(4 * kChannels, kChannels, 1)));
      return [layer](const T& x) mutable {
        return layer(F::pixel_unshuffle(image_padded_to_multiple(x, 2),
                                        F::PixelUnshuffleFuncOptions(2)))
            .tanh();
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // squeeze and excitation
      return [layer = add_linear(net, kChannels, kChannels)](const T& x) mutable {
        const auto mean = F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(1));
        return x * layer(mean.view({x.size(0), -1})).sigmoid().view({x.size(0), -1, 1, 1});
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // coordinates as channels
      auto layer = net.add(nn::Conv2d(nn::Conv2dOptions(kChannels + 2, kChannels, 1)));
      return [layer](const T& x) mutable {
        const auto rows = torch::arange(x.size(2)) / static_cast<double>(x.size(2));
        const auto columns = torch::linspace(-1, 1, x.size(3));
        const auto sizes = std::vector<int64_t>{x.size(0), 1, x.size(2), x.size(3)};
        return layer(torch::cat({x, rows.view({1, 1, -1, 1}).expand(sizes),
                                 columns.view({1, 1, 1, -1}).expand(sizes)},
                                1))
            .tanh();
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // attention over the pixels
      return [layer = add_linear(net, kChannels, kChannels)](const T& x) mutable {
        const auto tokens = layer(x.flatten(2).transpose(1, 2)).tanh();
        const auto y = mix(tokens.bmm(tokens.transpose(1, 2)), tokens);
        return y.transpose(1, 2).reshape({x.size(0), -1, x.size(2), x.size(3)});
      };
    },
    [](RandomNetImpl& net, int64_t) -> Part {  // interpolated positions
      return [table = net.add_parameter({1, kChannels, 5, 5})](const T& x) {
        return x + resized(table, x.size(2), x.size(3), true);
      };
    },
    [](RandomNetImpl&, int64_t a) -> Part {
      return [a](const T& x) {
        const auto moved = torch::tensor({1.0, 0.1, 0.05, -0.1, 1.0, 0.02 * static_cast<double>(a)})
                               .view({1, 2, 3});
        const auto grid =
            F::affine_grid(moved.expand({x.size(0), 2, 3}).contiguous(),
                           std::vector<int64_t>{x.size(0), kChannels, x.size(2), x.size(3)}, false);
        return F::grid_sample(x, grid, F::GridSampleFuncOptions().align_corners(false));
      };
    },
    [](RandomNetImpl&, int64_t) -> Part { return [](const T& x) {
                                            return x.flip({2, 3});
                                          }; },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return (x + x.roll({1, -1}, {2, 3})) / 2; };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // centre
      return [](const T& x) {
        const auto rows = (x.size(2) + 1) / 2;
        return x.narrow(2, (x.size(2) - rows) / 2, rows);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return F::pad(x, F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kReplicate))
                   .slice(2, 1)
                   .slice(3, 0, -1) /
               2;
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return x.flatten(2).softmax(2).view(x.sizes()) * 3; };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return x - x.sum({2, 3}, true) / static_cast<double>(x.size(2) * x.size(3));
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) { return x.transpose(2, 3).contiguous(); };
    },
    [](RandomNetImpl&, int64_t) -> Part {  // sums of neighbourhoods
      return [](const T& x) {
        const auto columns = F::unfold(x, F::UnfoldFuncOptions(3).padding(1));
        return columns.view({x.size(0), kChannels, 9, x.size(2), x.size(3)}).mean(2);
      };
    },
    [](RandomNetImpl&, int64_t) -> Part {
      return [](const T& x) {
        return x.index_select(3, torch::arange(x.size(3) - 1, -1, -1)) + x.amax({2, 3}, true) / 2;
      };
    },
}};

/// Adds `count` random parts to `net`. Returns their indices in `from` and their numbers `a`.
template <std::size_t Count>
std::string add_parts(RandomNetImpl& net, const std::array<DrawPart, Count>& from, int count) {
  std::string names;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(draw_between(0, Count - 1));
    const auto a = draw_between(1, 7);
    net.parts.push_back(from.at(index)(net, a));
    names += fmt::format("_{}a{}", index, a);
  }
  return names;
}

ExportCase draw_module(int number) {
  RandomNet net;
  std::vector<CaseInput> inputs;
  std::string parts;
  const auto batch = draw_size("batch", 9);
  if (draw_between(0, 3) == 0) {
    inputs = {reals("images", {batch, kChannels, draw_size("height", 20), draw_size("width", 20)})};
    parts = add_parts(*net, kImageParts, 6);
  } else {
    if (draw_between(0, 2) == 0) {
      net->embedding = net->register_module("embedding", nn::Embedding(30, kWidth));
      inputs = {tokens("tokens", 30, {batch, draw_size("length", 40)})};
    } else {
      inputs = {reals("x", {batch, draw_size("length", 40), kWidth})};
    }
    parts = add_parts(*net, kSequenceParts, 8);
  }
  return make_case("RandomModule", std::to_string(number) + parts, net, inputs,
                   [](auto& module, const Tensors& in) { return module.forward(in); });
}

}  // namespace

std::vector<ExportCase> random_modules(int count) {
  std::vector<ExportCase> cases;
  for (int i = 0; i < count; ++i) cases.push_back(draw_module(i));
  return cases;
}

}  // namespace attend
