#include "export/operator_case.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;

// Inputs with 2 channels. Most cases in this file use one of these inputs.
CaseInput signals() {
  return reals("signals", {kBatch, 2, kLength});
}
CaseInput images() {
  return reals("images", {kBatch, 2, 5, 4});
}
CaseInput volumes() {
  return reals("volumes", {kBatch, 2, 3, 4, 4});
}

/// Returns a tensor of the given shape in which all elements are distinct.
T weights(torch::IntArrayRef shape) {
  return torch::linspace(-1, 1, c10::multiply_integers(shape)).view(shape);
}

std::vector<ExportCase> convolutions_of_signals() {
  OperatorTable with(signals());
  with("conv1d", [](T x) { return torch::conv1d(x, weights({4, 2, 3}), {}, 1, 1); });
  with("conv1d_bias", [](T x) { return torch::conv1d(x, weights({4, 2, 1}), weights({4})); });
  with("conv1d_strided", [](T x) {
    return torch::conv1d(x, weights({4, 2, 3}), {}, /*stride=*/2, /*padding=*/1);
  });
  with("conv1d_groups", [](T x) {
    return torch::conv1d(x, weights({4, 1, 3}), {}, 1, /*padding=*/2, /*dilation=*/2, 2);
  });
  with("conv1d_same", [](T x) { return torch::conv1d(x, weights({4, 2, 3}), {}, 1, "same"); });
  with("conv1d_same_even", [](T x) {
    return torch::conv1d(x, weights({4, 2, 4}), {}, 1, "same", /*dilation=*/1);
  });
  with("conv1d_valid", [](T x) {
    return torch::conv1d(x, weights({4, 2, 1}), weights({4}), 2, "valid");
  });
  with("conv1d_unbatched", [](T x) {
    return torch::conv1d(x.sum(0), weights({4, 2, 3}), {}, 1, 1);
  });
  with("conv_transpose1d", [](T x) {
    return torch::conv_transpose1d(x, weights({2, 4, 3}), weights({4}));
  });
  with("conv_transpose1d_strided", [](T x) {
    return torch::conv_transpose1d(x, weights({2, 4, 3}), {}, 2, 1, /*output_padding=*/1);
  });
  return with.take();
}

std::vector<ExportCase> convolutions() {
  OperatorTable with(images());
  with("conv2d", [](T x) { return torch::conv2d(x, weights({4, 2, 3, 3}), weights({4})); });
  with("conv2d_strided", [](T x) {
    return torch::conv2d(x, weights({4, 1, 3, 2}), {}, {2, 1}, {1, 2}, {1, 2}, /*groups=*/2);
  });
  with("conv2d_same", [](T x) { return torch::conv2d(x, weights({4, 2, 3, 3}), {}, 1, "same"); });
  with("conv_transpose2d", [](T x) {
    return torch::conv_transpose2d(x, weights({2, 2, 3, 3}), {}, 2, 1, 1, /*groups=*/2);
  });
  OperatorTable with_volume(volumes());
  with_volume("conv3d", [](T x) { return torch::conv3d(x, weights({3, 2, 2, 2, 2})); });
  with_volume("conv3d_same", [](T x) {
    return torch::conv3d(x, weights({3, 2, 3, 1, 3}), {}, 1, "same");
  });
  with_volume("conv_transpose3d", [](T x) {
    return torch::conv_transpose3d(x, weights({2, 3, 2, 2, 2}));
  });
  return joined({with.take(), with_volume.take()});
}

std::vector<ExportCase> pools_of_numbers() {
  OperatorTable with(floats());
  with("max_pool1d", [](T x) { return torch::max_pool1d(x, 2); });
  with("max_pool1d_dilated", [](T x) { return torch::max_pool1d(x, 2, 1, 1, /*dilation=*/2); });
  with("max_pool1d_ceil_mode_padded", [](T x) {
    return torch::cat({torch::max_pool1d(x, 3, 2, 1, 1, true).flatten(1),
                       torch::max_pool1d(x, 3, 4, 1, 1, true).flatten(1)},
                      1);
  });
  with("max_pool1d_ceil_mode", [](T x) { return torch::max_pool1d(x, 4, 3, 0, 1, true); });
  with("avg_pool1d", [](T x) { return torch::avg_pool1d(x, 3, 2, 1); });
  with("avg_pool1d_exclude_pad",
       [](T x) { return torch::avg_pool1d(x, 3, 2, 1, false, /*count_include_pad=*/false); });
  with("avg_pool1d_ceil_mode", [](T x) { return torch::avg_pool1d(x, 4, 3, 0, true); });
  with("avg_pool1d_ceil_mode_padded", [](T x) {
    return Tensors{torch::avg_pool1d(x, 3, 2, 1, true), torch::avg_pool1d(x, 3, 4, 1, true),
                   torch::avg_pool1d(x, 4, 3, 2, true, /*count_include_pad=*/false)};
  });
  with("avg_pool1d_ceil_mode_padded_unbatched",
       [](T x) { return torch::avg_pool1d(x.sum(0), 3, 4, 1, true); });
  with("avg_pool1d_unbatched", [](T x) { return torch::avg_pool1d(x.sum(0), 2); });
  with("max_pool1d_of_padded", [](T x) {
    return torch::max_pool1d(torch::constant_pad_nd(x - 10, {1, 1}), 3, 2);
  });
  with("avg_pool1d_of_padded", [](T x) {
    return torch::avg_pool1d(torch::constant_pad_nd(x, {3, 3}), 3, 2);
  });
  with("adaptive_avg_pool1d", [](T x) { return torch::adaptive_avg_pool1d(x, 4); });
  with("adaptive_avg_pool1d_to_one", [](T x) { return torch::adaptive_avg_pool1d(x.mT(), 1); });
  with("adaptive_max_pool1d", [](T x) { return std::get<0>(torch::adaptive_max_pool1d(x, 4)); });
  return with.take();
}

std::vector<ExportCase> pools() {
  OperatorTable with(images());
  with("max_pool2d", [](T x) { return torch::max_pool2d(x, {2, 3}, {1, 2}, 1); });
  with("avg_pool2d", [](T x) { return torch::avg_pool2d(x, {2, 3}, 1, {1, 0}); });
  with("avg_pool2d_ceil_mode_padded", [](T x) {
    return Tensors{torch::avg_pool2d(x, {2, 3}, {3, 2}, {1, 0}, true),
                   torch::avg_pool2d(x, 3, 2, 1, true, /*count_include_pad=*/false)};
  });
  with("avg_pool2d_divisor", [](T x) {
    return Tensors{torch::avg_pool2d(x, {2, 3}, 1, {1, 0}, false, true, /*divisor_override=*/5),
                   torch::avg_pool2d(x, 3, 2, 1, true, false, /*divisor_override=*/-2)};
  });
  with("adaptive_avg_pool2d", [](T x) { return torch::adaptive_avg_pool2d(x, {2, 3}); });
  with("adaptive_max_pool2d", [](T x) {
    return std::get<0>(torch::adaptive_max_pool2d(x, {1, 3}));
  });
  OperatorTable with_volume(volumes());
  with_volume("max_pool3d", [](T x) { return torch::max_pool3d(x, 2); });
  with_volume("avg_pool3d", [](T x) { return torch::avg_pool3d(x, 2, 1); });
  with_volume("adaptive_avg_pool3d", [](T x) { return torch::adaptive_avg_pool3d(x, {2, 3, 1}); });
  with_volume("adaptive_max_pool3d", [](T x) {
    return std::get<0>(torch::adaptive_max_pool3d(x, {2, 3, 1}));
  });
  return joined({with.take(), with_volume.take()});
}

/// Resizing to given sizes, resizing by scale factors, and `F::interpolate`.
std::vector<ExportCase> resized() {
  using Factors = at::ArrayRef<double>;
  OperatorTable with_row(floats());
  with_row("upsample_nearest1d", [](T x) { return torch::upsample_nearest1d(x, {13}); });
  with_row("upsample_nearest1d_by",
           [](T x) { return torch::upsample_nearest1d(x, {}, Factors({2.0})); });
  with_row("upsample_linear1d", [](T x) { return torch::upsample_linear1d(x, {9}, true); });
  with_row("upsample_linear1d_by",
           [](T x) { return torch::upsample_linear1d(x, {}, false, Factors({1.4})); });
  // Factors and sizes for which onnxruntime's Resize rounds differently than LibTorch.
  with_row("upsample_nearest1d_rounding", [](T x) {
    const auto longer = x.repeat({1, 1, 5});  // (B, L, 30)
    return Tensors{torch::upsample_nearest1d(longer, {}, Factors({0.6})),
                   torch::upsample_nearest1d(longer, {}, Factors({2.3})),
                   torch::upsample_nearest1d(longer, {24}),
                   torch::upsample_nearest1d(x, {}, Factors({1.1})),
                   torch::upsample_nearest1d(x, at::IntArrayRef({12}), std::optional<double>(2.1))};
  });
  // The size of the last dimension is dynamic.
  with_row("upsample_of_lengths", [](T x) {
    // Neighbours are similar, so rounding errors of the positions hardly change the results.
    const auto rows = (x.transpose(1, 2).repeat({1, 1, 30}) / 100).cumsum(-1);  // (B, 6, 30 L)
    return Tensors{torch::upsample_nearest1d(rows, {}, Factors({0.7})),
                   torch::upsample_linear1d(rows, {}, false, Factors({2.3})),
                   torch::upsample_linear1d(rows, {}, false, Factors({1.3})),
                   torch::upsample_linear1d(rows, {}, true, Factors({0.35})),
                   torch::upsample_linear1d(rows, {}, false, Factors({0.35}))};
  });
  OperatorTable with(images());
  with("upsample_2d_rounding", [](T x) {
    const auto wide = (x.repeat({1, 1, 7, 9}) / 100).cumsum(-1).cumsum(-2);
    return Tensors{torch::upsample_nearest2d(x, {}, Factors({1.2, 1.1})),
                   torch::upsample_nearest2d(x, {}, Factors({2.1, 2.05})),
                   torch::upsample_nearest2d(wide, {13, 24}),
                   torch::upsample_bilinear2d(wide, {}, false, Factors({1.3, 0.7})),
                   torch::upsample_bicubic2d(wide, {}, false, Factors({1.15, 0.35}))};
  });
  // Factors that are not exactly 1 or 2 but keep or double the size. The kernels for small images
  // (sum of height and width at most 128) and for larger images round differently.
  with("upsample_by_almost_whole_factors", [](T x) {
    const auto wide = torch::cat({x, x + 1, x * 2, x - 3}, 3).repeat({1, 1, 6, 3});
    return Tensors{torch::upsample_nearest2d(x, {}, Factors({2.006, 1.08})),
                   torch::upsample_nearest2d(wide, {}, Factors({2.006, 2.009})),
                   torch::upsample_bilinear2d(x, {}, false, Factors({1.08, 2.006})),
                   torch::upsample_bilinear2d(x, {}, false, Factors({1.0625, 1.0})),
                   torch::upsample_bicubic2d(x, {}, false, Factors({1.08, 1.3}))};
  });
  with("upsample_nearest2d", [](T x) { return torch::upsample_nearest2d(x, {7, 9}); });
  with("upsample_nearest2d_scale_factor", [](T x) {
    return torch::upsample_nearest2d(x, {}, Factors({2.0, 3.0}));
  });
  with("upsample_bilinear2d", [](T x) { return torch::upsample_bilinear2d(x, {7, 9}, true); });
  with("upsample_bilinear2d_scale_factor", [](T x) {
    return torch::upsample_bilinear2d(x, {}, false, Factors({2.0, 1.5}));
  });
  with("upsample_bicubic2d", [](T x) { return torch::upsample_bicubic2d(x, {7, 9}, false); });
  with("upsample_bicubic2d_scale_factor", [](T x) {
    return torch::upsample_bicubic2d(x, {}, false, Factors({2.0, 1.5}));
  });
  with("interpolate", [](T x) {
    return F::interpolate(x, F::InterpolateFuncOptions()
                                 .scale_factor(std::vector<double>{1.5, 1.3})
                                 .mode(torch::kBilinear)
                                 .align_corners(false));
  });
  OperatorTable with_volume(volumes());
  with_volume("upsample_nearest3d", [](T x) { return torch::upsample_nearest3d(x, {4, 7, 9}); });
  with_volume("upsample_nearest3d_by", [](T x) {
    return torch::upsample_nearest3d(x, {}, Factors({1.0, 2.0, 2.0}));
  });
  with_volume("upsample_trilinear3d", [](T x) {
    return torch::upsample_trilinear3d(x, {4, 7, 9}, true);
  });
  with_volume("upsample_trilinear3d_by", [](T x) {
    return torch::upsample_trilinear3d(x, {}, false, Factors({1.0, 2.0, 2.0}));
  });
  return joined({with_row.take(), with.take(), with_volume.take()});
}

std::vector<ExportCase> normalized() {
  OperatorTable with(images());
  static constexpr auto positive = [] { return weights({2}).abs() + 0.5; };
  with("layer_norm", [](T x) { return torch::layer_norm(x, {4}); });
  with("layer_norm_two_dims", [](T x) {
    return torch::layer_norm(x, {5, 4}, weights({5, 4}), weights({5, 4}), 0.1);
  });
  with("layer_norm_weight", [](T x) { return torch::layer_norm(x, {4}, weights({4})); });
  with("rms_norm", [](T x) { return torch::rms_norm(x, {4}); });
  with("rms_norm_weight", [](T x) { return torch::rms_norm(x, {5, 4}, weights({5, 4}), 0.1); });
  with("group_norm", [](T x) { return torch::group_norm(x, 2); });
  with("group_norm_weight",
       [](T x) { return torch::group_norm(x, 1, weights({2}), weights({2})); });
  with("instance_norm", [](T x) {
    return torch::instance_norm(x, weights({2}), {}, {}, {}, true, 0.1, 1e-5, false);
  });
  with("instance_norm_running", [](T x) {
    return torch::instance_norm(x, {}, {}, weights({2}), positive(), false, 0.1, 1e-5, false);
  });
  with("batch_norm", [](T x) {
    return torch::batch_norm(x, {}, weights({2}), weights({2}), positive(), false, 0.1, 1e-5,
                             false);
  });
  with("batch_norm_batch_stats",
       [](T x) { return torch::batch_norm(x, weights({2}), {}, {}, {}, true, 0.1, 1e-5, false); });
  with("prelu_channels", [](T x) { return torch::prelu(x, weights({2})); });
  return with.take();
}

/// Arguments of a recurrent layer with `input_size` 6 and `hidden_size` 3.
struct Recurrent {
  int64_t gates;
  int64_t num_layers = 1;
  int64_t directions = 1;
  bool has_biases = true;

  Tensors params() const {
    Tensors all;
    for (int64_t i = 0; i < num_layers * directions; ++i) {
      const auto width = i < directions ? 6 : 3 * directions;
      all.push_back(weights({3 * gates, width}));
      all.push_back(weights({3 * gates, 3}).flip({0}));
      if (has_biases) all.insert(all.end(), 2, weights({3 * gates}));
    }
    return all;
  }

  /// Returns an initial state (num_layers * directions, B, 3), computed from features `from` to
  /// `from` + 2 of `x`.
  T state(const T& x, int64_t from) const {
    return x.sum(1).narrow(-1, from, 3).unsqueeze(0).repeat({num_layers * directions, 1, 1});
  }
};

std::vector<ExportCase> recurrent() {
  OperatorTable with(floats());
  static constexpr auto lstm = [](const Recurrent& of, const T& x) {
    return torch::lstm(x, {of.state(x, 0), of.state(x, 3)}, of.params(), of.has_biases,
                       of.num_layers, 0.0, false, of.directions == 2, /*batch_first=*/true);
  };
  static constexpr auto gru = [](const Recurrent& of, const T& x) {
    return torch::gru(x, of.state(x, 0), of.params(), of.has_biases, of.num_layers, 0.0, false,
                      of.directions == 2, /*batch_first=*/true);
  };
  with("lstm", [](T x) { return lstm({.gates = 4}, x); });
  with("lstm_bidirectional",
       [](T x) { return lstm({.gates = 4, .num_layers = 2, .directions = 2}, x); });
  with("gru", [](T x) { return gru({.gates = 3}, x); });
  with("gru_bidirectional",
       [](T x) { return gru({.gates = 3, .num_layers = 2, .directions = 2}, x); });
  with("gru_no_bias", [](T x) { return gru({.gates = 3, .has_biases = false}, x); });
  with("rnn", [](T x) {
    const Recurrent of{.gates = 1};
    return torch::rnn_tanh(x.transpose(0, 1), of.state(x, 0), of.params(), true, 1, 0.0, false,
                           false, /*batch_first=*/false);
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> layer_operators() {
  return joined({convolutions_of_signals(), convolutions(), pools_of_numbers(), pools(), resized(),
                 normalized(), recurrent()});
}

}  // namespace attend
