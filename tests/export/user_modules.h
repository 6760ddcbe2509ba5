#pragma once

#include <ATen/ops/_neg_view.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/pimpl.h>

#include <tuple>

/// Custom modules that use no module of attend.
namespace attend::user {

/// Maps images (B, 3, 8, 8) to scores (B, 5).
struct ConvolutionNetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) {
    auto x = pool(norm1(conv1(images)).relu());  // (B, 6, 4, 4)
    x = norm2(conv2(x)).relu();                  // (B, 8, 2, 2)
    return head(dropout(x.flatten(1)));          // (B, 5)
  }

  torch::nn::Conv2d conv1 = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).padding(1).bias(false)));
  torch::nn::BatchNorm2d norm1 = register_module("norm1", torch::nn::BatchNorm2d(6));
  torch::nn::MaxPool2d pool = register_module("pool", torch::nn::MaxPool2d(2));
  torch::nn::Conv2d conv2 = register_module(
      "conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 8, 3).stride(2).padding(1).groups(2)));
  torch::nn::BatchNorm2d norm2 = register_module("norm2", torch::nn::BatchNorm2d(8));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(32, 5));
};
TORCH_MODULE(ConvolutionNet);

/// Maps images (B, 3, H, W) of any size to scores (B, 5).
struct ImageNetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) {
    auto x = conv1(images).relu();       // (B, 4, (H + 1) / 2, (W + 1) / 2)
    x = conv2(x).relu();                 // (B, 6, (H + 3) / 4, (W + 3) / 4)
    return head(x.flatten(2).mean(-1));  // (B, 5)
  }

  static torch::nn::Conv2dOptions halved(int64_t in, int64_t out) {
    return torch::nn::Conv2dOptions(in, out, 3).stride(2).padding(1);
  }
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(halved(3, 4)));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(halved(4, 6)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(6, 5));
};
TORCH_MODULE(ImageNet);

/// Maps images (B, 3, H, W) to three outputs: the images pooled once with kernel size 2, once with
/// kernel size 3, and five times with kernel size 2.
struct PoolsImpl : torch::nn::Module {
  std::vector<torch::Tensor> forward(const torch::Tensor& images) {
    namespace F = torch::nn::functional;
    const auto pooled = [](const torch::Tensor& x, int64_t size) {
      return F::avg_pool2d(x, F::AvgPool2dFuncOptions(size).padding(1));
    };
    auto deep = images;  // (B, 3, H, W)
    for (int i = 0; i < 5; ++i) deep = pooled(deep, 2);
    return {pooled(images, 2), pooled(images, 3), deep};
  }
};
TORCH_MODULE(Pools);

/// Maps signals (B, 2, T) of any length to scores (B, 3).
struct SignalNetImpl : torch::nn::Module {
  explicit SignalNetImpl(int64_t stride = 1) {
    const auto options = torch::nn::Conv1dOptions(2, 4, 3).padding(1).stride(stride);
    conv = register_module("conv", torch::nn::Conv1d(options));
  }

  torch::Tensor forward(const torch::Tensor& signals) {
    const auto x = torch::gelu(conv(signals));  // (B, 4, T) if stride is 1
    return head(x.mean(-1));                    // (B, 3)
  }

  torch::nn::Conv1d conv{nullptr};
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 3));
};
TORCH_MODULE(SignalNet);

/// One step of an LSTM. Maps an input (B, 4) and a state to the next state. A state consists of two
/// tensors (B, 6).
struct LstmStepImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x,
                                                   const torch::Tensor& hidden,
                                                   const torch::Tensor& cell) {
    return lstm(x, std::make_tuple(hidden, cell));
  }

  torch::nn::LSTMCell lstm = register_module("lstm", torch::nn::LSTMCell(4, 6));
};
TORCH_MODULE(LstmStep);

/// A bidirectional LSTM with two layers on sequences (B, T, 4). The initial state (two tensors of
/// shape (4, B, 5)) is an input.
struct LstmImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x,
                                                   const torch::Tensor& hidden,
                                                   const torch::Tensor& cell) {
    const auto [output, state] = lstm(x, std::make_tuple(hidden, cell));
    return {output, std::get<0>(state)};  // (B, T, 10), (4, B, 5)
  }

  torch::nn::LSTM lstm = register_module(
      "lstm",
      torch::nn::LSTM(
          torch::nn::LSTMOptions(4, 5).num_layers(2).batch_first(true).bidirectional(true)));
};
TORCH_MODULE(Lstm);

/// An autoencoder for vectors (B, 8). The encoder and the decoder share their weights. The mean of
/// the vectors is a buffer.
struct TiedAutoencoderImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const auto code = torch::tanh((x - mean).matmul(encoder.t()));  // (B, 3)
    return code.matmul(decoder) + bias + mean;                      // (B, 8)
  }

  torch::Tensor encoder = register_parameter("encoder", torch::randn({3, 8}));
  torch::Tensor decoder = register_parameter("decoder", encoder);
  torch::Tensor bias = register_parameter("bias", torch::zeros({8}));
  torch::Tensor mean = register_buffer("mean", torch::randn({8}));
  torch::Tensor seen =
      register_buffer("seen", torch::tensor(7, torch::kLong));  // not used by forward
};
TORCH_MODULE(TiedAutoencoder);

/// Weights that are negative views: their memory contains the values with the other sign.
struct NegativeViewsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {  // (B, 8)
    return x * scale + frequencies + constant;
  }

  torch::Tensor frequencies = register_buffer(
      "frequencies",
      torch::imag(torch::complex(torch::ones({8}), torch::arange(8).to(torch::kFloat)).conj()));
  torch::Tensor scale = register_parameter("scale", at::_neg_view(torch::randn({8})));
  torch::Tensor constant = at::_neg_view(torch::randn({8}));
};
TORCH_MODULE(NegativeViews);

/// One layer registered under two names.
struct SharedLayerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return second(first(x).relu()) + x; }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 8));
  torch::nn::Linear second = register_module("second", first);
};
TORCH_MODULE(SharedLayer);

}  // namespace attend::user
