#include "export/export_case.h"

#include <torch/nn/functional.h>
#include <torch/nn/modules.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>

/// Small networks of the kinds that people publish.
namespace attend {
namespace {

namespace F = torch::nn::functional;
namespace nn = torch::nn;
using T = torch::Tensor;

/// A module with named layers, and with a forward that is a lambda.
struct NetworkImpl : nn::Module {
  using Layers = std::initializer_list<std::pair<const std::string, nn::AnyModule>>;
  using Run = std::function<Outputs(NetworkImpl&, const Tensors&)>;
  NetworkImpl(Layers named, Run run) : layers(named), run(std::move(run)) {
    for (auto& [name, layer] : layers) register_module(name, layer.ptr());
  }
  T operator()(const std::string& layer, const T& x) { return layers.at(layer).forward(x); }

  std::map<std::string, nn::AnyModule> layers;
  Run run;
};
TORCH_MODULE(Network);

nn::AnyModule linear(int64_t in, int64_t out) {
  return nn::AnyModule(nn::Linear(in, out));
}

nn::AnyModule conv2d(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
                     int64_t groups = 1) {
  const auto options = nn::Conv2dOptions(in, out, kernel);
  return nn::AnyModule(
      nn::Conv2d(nn::Conv2dOptions(options).stride(stride).padding(kernel / 2).groups(groups)));
}

nn::AnyModule conv1d(int64_t in, int64_t out, int64_t kernel, int64_t dilation = 1,
                     int64_t stride = 1) {
  return nn::AnyModule(
      nn::Conv1d(nn::Conv1dOptions(in, out, kernel).dilation(dilation).stride(stride)));
}

nn::AnyModule layer_norm(int64_t width) {
  return nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({width})));
}

/// Splits the last dimension of (B, T, E) into heads: (B, H, T, E / H).
T heads(const T& x, int64_t num_heads) {
  return x.view({x.size(0), x.size(1), num_heads, -1}).transpose(1, 2);
}

/// Attention with `num_heads` heads; x: (B, T, E), memory: (B, S, E).
T attend_to(const T& x, const T& memory, int64_t num_heads) {
  const auto values = heads(memory, num_heads);
  const auto y = torch::scaled_dot_product_attention(heads(x, num_heads), values, values);
  return y.transpose(1, 2).reshape({x.size(0), x.size(1), x.size(2)});
}

/// Sines and cosines of the positions 0 .. length-1: (length, width).
T sinusoids(const T& positions, int64_t width) {
  const auto half = width / 2;
  const auto frequencies =
      torch::exp(torch::arange(half) * (-std::log(10000.0) / static_cast<double>(half)));
  const auto angles = positions.to(torch::kFloat).unsqueeze(-1) * frequencies;
  return torch::cat({angles.sin(), angles.cos()}, -1);
}

class Cases {
 public:
  void add(const char* option, NetworkImpl::Layers layers, std::vector<CaseInput> inputs,
           NetworkImpl::Run run) {
    all.push_back(
        make_case("UserNetwork", option, Network(layers, std::move(run)), std::move(inputs),
                  [](auto& net, const Tensors& in) -> Outputs { return net.run(net, in); }));
  }
  std::vector<ExportCase> all;
};

void add_image_networks(Cases& cases) {
  static const auto kHeight = add_dynamic_size({"rows", 8, 33, 12, {8, 33, 17}});
  static const auto kWidth = add_dynamic_size({"columns", 8, 40, 10, {40, 8, 23}});
  const auto images = reals("images", {kBatch, 3, kHeight, kWidth});
  cases.add("ResNet",
            {{"stem", conv2d(3, 4, 3, 2)},
             {"norm", nn::AnyModule(nn::BatchNorm2d(4))},
             {"first", conv2d(4, 4, 3)},
             {"wider", conv2d(4, 6, 3, 2)},
             {"shortcut", conv2d(4, 6, 1, 2)},
             {"head", linear(6, 5)}},
            {images}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              auto x = F::max_pool2d(net("norm", net("stem", in[0])).relu(),
                                     F::MaxPool2dFuncOptions(3).stride(2).padding(1));
              x = (x + net("norm", net("first", x))).relu();
              x = (net("shortcut", x) + net("wider", x)).relu();
              x = F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(1));
              return net("head", x.view({x.size(0), -1}));
            });
  cases.add("ConvNeXt",
            {{"patches", conv2d(3, 4, 3, 2)},
             {"depthwise", conv2d(4, 4, 7, 1, 4)},
             {"norm", layer_norm(4)},
             {"wide", linear(4, 16)},
             {"narrow", linear(16, 4)}},
            {images}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto x = net("patches", in[0]);
              const auto y = net("norm", net("depthwise", x).permute({0, 2, 3, 1}));
              return x + net("narrow", torch::gelu(net("wide", y))).permute({0, 3, 1, 2});
            });
  cases.add("SpatialTransformer", {{"features", conv2d(3, 4, 3, 2)}, {"transform", linear(4, 6)}},
            {images}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto x = net("features", in[0]);
              const auto change = net("transform", x.mean({2, 3})).tanh().view({-1, 2, 3});
              const auto grid = F::affine_grid(torch::eye(2, 3) + 0.1 * change, x.sizes(), false);
              return F::grid_sample(x, grid, F::GridSampleFuncOptions().align_corners(false));
            });
  cases.add("Diffusion",
            {{"time", linear(8, 4)},
             {"embed", conv2d(3, 4, 3)},
             {"norm", nn::AnyModule(nn::GroupNorm(nn::GroupNormOptions(2, 4)))},
             {"down", conv2d(4, 4, 3, 2)},
             {"out", conv2d(8, 3, 3)}},
            {images, tokens("steps", 100, {kBatch})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto time = net("time", sinusoids(in[1], 8)).view({in[0].size(0), -1, 1, 1});
              const auto fine = torch::silu(net("norm", net("embed", in[0])) + time);
              const auto raised = F::interpolate(
                  net("down", fine), F::InterpolateFuncOptions()
                                         .size(std::vector<int64_t>{fine.size(2), fine.size(3)})
                                         .mode(torch::kNearest));
              return net("out", torch::cat({fine, raised}, 1));
            });
  cases.add("DetrDecoder",
            {{"backbone", conv2d(3, 8, 3, 2)},
             {"queries", nn::AnyModule(nn::Embedding(5, 8))},
             {"classes", linear(8, 4)},
             {"boxes", linear(8, 4)}},
            {images}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto memory = net("backbone", in[0]).flatten(2).transpose(1, 2);
              const auto queries = net("queries", torch::arange(5)).unsqueeze(0);
              auto x = queries.expand({memory.size(0), -1, -1});
              x = x + attend_to(x, x, 2);
              x = x + attend_to(x, memory, 2);
              return Tensors{net("classes", x), net("boxes", x).sigmoid()};
            });
  cases.add("Clip",
            {{"patches", conv2d(3, 8, 3, 2)},
             {"embedding", nn::AnyModule(nn::Embedding(20, 8))},
             {"image_features", linear(8, 6)},
             {"text_features", linear(8, 6)}},
            {images, tokens("tokens", 20, {kMemoryLength, kLength})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto patches = net("patches", in[0]).flatten(2).transpose(1, 2);
              const auto image = net("image_features", attend_to(patches, patches, 2).mean(1));
              auto x = net("embedding", in[1]);
              x = x + sinusoids(torch::arange(x.size(1)), 8);
              x = attend_to(x, x, 2);
              const auto last = in[1].argmax(-1);  // the end of the text has the largest number
              const auto text = net("text_features", x.index({torch::arange(x.size(0)), last}));
              return 10.0 * F::normalize(image).matmul(F::normalize(text).t());
            });
  cases.all.back().terms = 10.0;
}

void add_sequence_networks(Cases& cases) {
  const auto features = reals("x", {kBatch, kLength, 6});
  cases.add("WaveNet",
            {{"embed", conv1d(6, 4, 1)},
             {"first", conv1d(4, 8, 2)},
             {"second", conv1d(4, 8, 2, 2)},
             {"residual", conv1d(4, 4, 1)},
             {"out", conv1d(4, 5, 1)}},
            {features}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              auto x = net("embed", F::pad(in[0].transpose(1, 2), F::PadFuncOptions({3, 0})));
              T skipped;
              for (const auto* layer : {"first", "second"}) {
                const auto gates = net(layer, x).chunk(2, 1);
                const auto y = net("residual", gates[0].tanh() * gates[1].sigmoid());
                x = x.slice(2, x.size(2) - y.size(2)) + y;
                skipped = skipped.defined() ? skipped.slice(2, skipped.size(2) - y.size(2)) + y : y;
              }
              return net("out", skipped.relu());
            });
  cases.add("TemporalConvolutions", {{"first", conv1d(6, 6, 3)}, {"second", conv1d(6, 6, 3, 2)}},
            {features}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              auto x = in[0].transpose(1, 2);
              for (const auto& [layer, padding] : {std::pair{"first", 2}, {"second", 4}}) {
                const auto padded = F::pad(x, F::PadFuncOptions({padding, padding}));
                const auto y = net(layer, padded);
                x = (x + y.slice(2, 0, y.size(2) - padding).relu()).relu();
              }
              return x;
            });
  cases.add("SpeechEncoder",
            {{"first", conv1d(6, 8, 3)}, {"second", conv1d(8, 8, 3, 1, 2)}, {"out", linear(8, 4)}},
            {reals("spectrum", {kBatch, 6, kLength})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto pad = [](const T& x) { return F::pad(x, F::PadFuncOptions({1, 1})); };
              const auto x = torch::gelu(net("second", pad(torch::gelu(net("first", pad(in[0]))))));
              auto y = x.transpose(1, 2);
              y = y + sinusoids(torch::arange(y.size(1)), 8);
              return net("out", y + attend_to(y, y, 2)).log_softmax(-1);
            });
  cases.add("SelectiveScan",
            {{"embed", linear(6, 8)}, {"steps", linear(4, 4)}, {"gates", linear(4, 6)}},
            {reals("x", {kBatch, 5, 6})}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto halves = net("embed", in[0]).chunk(2, -1);
              const auto step = F::softplus(net("steps", halves[0]));
              const auto gates = net("gates", halves[0]).chunk(2, -1);
              auto state = torch::zeros({in[0].size(0), 4, 3});
              Tensors outputs;
              for (int64_t t = 0; t < halves[0].size(1); ++t) {  // 5 steps
                const auto decay = torch::exp(-step.select(1, t)).unsqueeze(-1);
                const auto added = (step * halves[0]).select(1, t).unsqueeze(-1) *
                                   gates[0].select(1, t).unsqueeze(1);
                state = decay * state + added;
                outputs.push_back(state.matmul(gates[1].select(1, t).unsqueeze(-1)).squeeze(-1));
              }
              return torch::stack(outputs, 1) * torch::silu(halves[1]);
            });
  cases.add("Transducer",
            {{"encoder", linear(6, 8)},
             {"embedding", nn::AnyModule(nn::Embedding(20, 8))},
             {"out", linear(8, 5)}},
            {features, tokens("targets", 20, {kBatch, kMemoryLength})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto heard = net("encoder", in[0]).unsqueeze(2);
              const auto said = net("embedding", in[1]).unsqueeze(1);
              const std::vector<int64_t> shape{in[0].size(0), in[0].size(1), in[1].size(1), 8};
              const auto joint = heard.expand(shape) + said.expand(shape);
              return net("out", joint.tanh()).log_softmax(-1);
            });
  cases.add("GraphConvolution", {{"first", linear(6, 8)}, {"second", linear(8, 3)}},
            {features, bools("edges", {kBatch, kLength, kLength})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto edges = in[1].logical_or(in[1].transpose(1, 2)).to(torch::kFloat);
              const auto connected = (edges + torch::eye(in[0].size(1))).clamp_max(1.0);
              const auto degree = connected.sum(-1, true).rsqrt();
              const auto weights = degree * connected * degree.transpose(1, 2);
              const auto x = weights.matmul(net("first", in[0])).relu();
              return weights.matmul(net("second", x));
            });
  cases.add("GraphAttention",
            {{"embed", linear(6, 4)}, {"source", linear(4, 1)}, {"target", linear(4, 1)}},
            {features, bools("edges", {kBatch, kLength, kLength})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto x = net("embed", in[0]);
              const auto n = x.size(1);
              const auto scores = F::leaky_relu(net("source", x).expand({-1, n, n}) +
                                                net("target", x).transpose(1, 2));
              const auto connected = in[1].logical_or(torch::eye(n, torch::kBool));
              return scores.masked_fill(connected.logical_not(), -1e9).softmax(-1).matmul(x);
            });
  cases.add("NormalizingFlow", {{"first", linear(3, 6)}, {"second", linear(3, 6)}},
            {reals("x", {kBatch, 6})}, [](NetworkImpl& net, const Tensors& in) -> Outputs {
              auto x = in[0];
              auto log_determinant = torch::zeros(x.size(0));
              for (const auto* layer : {"first", "second"}) {
                const auto halves = x.chunk(2, 1);
                const auto scale_and_shift = net(layer, halves[0]).chunk(2, 1);
                const auto scale = scale_and_shift[0].tanh();
                const auto changed = halves[1] * scale.exp() + scale_and_shift[1];
                x = torch::cat({halves[0], changed}, 1).flip(1);
                log_determinant = log_determinant + scale.sum(1);
              }
              return Tensors{x, log_determinant};
            });
  cases.add("Vae", {{"encoder", linear(6, 8)}, {"decoder", linear(4, 6)}}, {features},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto moments = net("encoder", in[0]).chunk(2, -1);
              const auto noise = torch::randn({in[0].size(0), in[0].size(1), 4});
              return net("decoder", moments[0] + noise * (0.5 * moments[1]).exp());
            });
  cases.all.back().draws_random_numbers = true;
}

/// One layer of a decoder whose cache is an input and an output. The cache may be empty.
void add_decoder_with_past(Cases& cases) {
  static const auto kPast = add_dynamic_size({"past", 0, 12, 3, {0, 12, 1}});
  cases.add("DecoderWithPast", {{"query_key_value", linear(6, 18)}, {"out", linear(6, 6)}},
            {reals("x", {kBatch, kLength, 6}), reals("past_key", {kBatch, 2, kPast, 3}),
             reals("past_value", {kBatch, 2, kPast, 3})},
            [](NetworkImpl& net, const Tensors& in) -> Outputs {
              const auto& x = in[0];
              const auto all = net("query_key_value", x).chunk(3, -1);
              const auto past = in[1].size(2);
              const auto key = torch::cat({in[1], heads(all[1], 2)}, 2);
              const auto value = torch::cat({in[2], heads(all[2], 2)}, 2);
              const auto queries = torch::arange(past, past + x.size(1)).unsqueeze(-1);
              const auto visible = torch::arange(key.size(2)) <= queries;
              const auto y =
                  torch::scaled_dot_product_attention(heads(all[0], 2), key, value, visible);
              const auto joined = y.transpose(1, 2).reshape({x.size(0), x.size(1), 6});
              return Tensors{net("out", joined), key, value};
            });
}

}  // namespace

std::vector<ExportCase> network_cases() {
  Cases cases;
  add_image_networks(cases);
  add_sequence_networks(cases);
  add_decoder_with_past(cases);
  return cases.all;
}

}  // namespace attend
