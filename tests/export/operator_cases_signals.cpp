#include "export/operator_case.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;

/// Images with two channels and dynamic height and width.
CaseInput images_of_any_size() {
  return reals("images", {kBatch, 2, kLength, kMemoryLength});
}

/// Returns a sequence with three times as many elements, so that windows of 3 elements fit into it.
T longer(const T& x) {
  return torch::cat({x, x + 1, x - 1}, 1);  // (B, 3*T, 6)
}

/// Operators on windows that move over a tensor.
void add_windows(OperatorTable& with) {
  with("unfold", [](T x) { return longer(x).unfold(1, 3, 1); });
  with("unfold_strided", [](T x) { return longer(x).unfold(1, 2, 3); });
  with("unfold_width", [](T x) { return x.unfold(-1, 4, 2); });
  with("unfold_twice", [](T x) { return longer(x).unfold(1, 2, 1).unfold(2, 3, 3).sum(-1); });
  with("unfold_of_mutated", [](T x) {
    auto y = longer(x);
    const auto windows = y.unfold(1, 3, 1);
    y.select(1, 0).fill_(4);
    return windows * 1;
  });
}

std::vector<ExportCase> windows() {
  OperatorTable with(floats());
  add_windows(with);
  OperatorTable in_float16(floats(), "_in_float16", torch::kHalf);
  in_float16("unfold", [](T x) { return longer(x).unfold(1, 3, 1); });
  OperatorTable of_integers(integers(), "_of_integers");
  of_integers("unfold", [](T x) { return longer(x).unfold(1, 3, 2); });

  OperatorTable of_images(images_of_any_size());
  using Unfold = F::UnfoldFuncOptions;
  of_images("im2col", [](T x) { return F::unfold(x, Unfold({1, 1})); });
  of_images("im2col_padded", [](T x) { return F::unfold(x, Unfold({2, 3}).padding({1, 2})); });
  of_images("im2col_strided", [](T x) {
    return F::unfold(x, Unfold({2, 2}).padding(2).stride({2, 1}).dilation({1, 2}));
  });
  of_images("im2col_unbatched", [](T x) {
    return torch::im2col(x.select(0, 0), {2, 3}, {1, 1}, {1, 1}, {1, 1});
  });
  of_images("pixel_unshuffle", [](T x) {
    const auto wide = x.repeat_interleave(3, 2).repeat_interleave(3, 3);
    return F::pixel_unshuffle(wide + x.mean(), 3);
  });
  of_images("pixel_unshuffle_unbatched", [](T x) {
    return torch::pixel_unshuffle(torch::cat({x, x + 1}, 2).repeat_interleave(2, 3), 2)
        .select(0, 0);
  });

  OperatorTable of_fixed_images(reals("images", {kBatch, 2, 5, 4}));
  using Fold = F::FoldFuncOptions;
  of_fixed_images("col2im", [](T x) {
    return F::fold(F::unfold(x, Unfold({2, 3})), Fold({5, 4}, {2, 3}));
  });
  of_fixed_images("col2im_strided", [](T x) {
    const auto columns =
        F::unfold(x, Unfold({2, 2}).padding({1, 0}).stride({2, 1}).dilation({1, 2}));
    return F::fold(columns, Fold({5, 4}, {2, 2}).padding({1, 0}).stride({2, 1}).dilation({1, 2}));
  });
  of_fixed_images("col2im_unbatched", [](T x) {
    return torch::col2im(F::unfold(x, Unfold({2, 2})).select(0, 0), {5, 4}, {2, 2}, {1, 1}, {0, 0},
                         {1, 1});
  });
  of_fixed_images("resize_antialiased", [](T x) {
    return F::interpolate(x, F::InterpolateFuncOptions()
                                 .size(std::vector<int64_t>{3, 2})
                                 .mode(torch::kBilinear)
                                 .align_corners(false)
                                 .antialias(true));
  });
  of_fixed_images("resize_cubic_antialiased", [](T x) {
    return torch::_upsample_bicubic2d_aa(x, {2, 3}, /*align_corners=*/false);
  });
  of_images("resize_by_factors_antialiased", [](T x) {
    // LibTorch's kernel is wrong if the new width is 1 and the height shrinks, so the width is 4
    // or more.
    const auto wide = torch::cat({x, x + 1}, 2).repeat({1, 1, 1, 4});
    const std::vector<double> factors{0.5, 0.75};
    return Tensors{torch::_upsample_bilinear2d_aa(wide, std::nullopt, false, factors),
                   torch::_upsample_bicubic2d_aa(wide, std::nullopt, false, factors)};
  });
  of_images("resize_any_size_antialiased", [](T x) {
    return torch::_upsample_bilinear2d_aa(x, {3, 5}, false);
  });
  of_images("resize_any_size_cubic_antialiased", [](T x) {
    return torch::_upsample_bicubic2d_aa(x, {5, 3}, false);
  });
  return joined({with.take(), in_float16.take(), of_integers.take(), of_images.take(),
                 of_fixed_images.take()});
}

std::vector<ExportCase> sampled() {
  OperatorTable with(images_of_any_size());
  // Points inside and outside of the image.
  static constexpr auto grid = [](const T& x) { return x.permute({0, 2, 3, 1}) * 0.8; };
  using Options = F::GridSampleFuncOptions;
  with("grid_sample",
       [](T x) { return F::grid_sample(x, grid(x), Options().align_corners(false)); });
  with("grid_sample_border", [](T x) {
    return F::grid_sample(x, grid(x), Options().padding_mode(torch::kBorder).align_corners(true));
  });
  with("grid_sample_reflection", [](T x) {
    return F::grid_sample(x, grid(x).slice(1, 0, 1),
                          Options().padding_mode(torch::kReflection).align_corners(false));
  });
  with("grid_sample_nearest", [](T x) {
    return F::grid_sample(x, grid(x), Options().mode(torch::kNearest).align_corners(false));
  });
  with("grid_sample_cubic", [](T x) {
    return torch::grid_sampler(x, grid(x), /*interpolation_mode=*/2, /*padding_mode=*/0, true);
  });
  with("grid_sample_of_volume", [](T x) {
    const auto volume = torch::stack({x, x + 1, x * 2}, 2);  // (B, 2, 3, H, W)
    const auto points = torch::cat({grid(x), grid(x).sin()}, -1).slice(-1, 0, 3);  // (B, H, W, 3)
    return torch::grid_sampler(volume, points.unsqueeze(1), /*interpolation_mode=*/0,
                               /*padding_mode=*/1, /*align_corners=*/false);
  });
  static constexpr auto theta = [](const T& x, int64_t rows) {
    return x.mean().view({1, 1, 1}) + torch::arange(rows * (rows + 1)).view({1, rows, rows + 1});
  };
  with("affine_grid", [](T x) { return F::affine_grid(theta(x, 2), {1, 2, 3, 5}, false); });
  with("affine_grid_align_corners", [](T x) {
    return F::affine_grid(theta(x, 2), {1, 2, 1, 5}, /*align_corners=*/true);
  });
  with("affine_grid_of_volume", [](T x) {
    return F::affine_grid(theta(x, 3), {1, 2, 3, 2, 4}, false);
  });
  auto cases = with.take();
  for (auto& any : cases) {
    if (any.option == "grid_sample_of_volume") any.allowed_errors = {"requires opset 20"};
  }
  return cases;
}

/// Complex numbers, which the ONNX file represents as pairs of real numbers.
void add_complex_numbers(OperatorTable& with) {
  static constexpr auto complex = [](const T& x) {
    return torch::view_as_complex(x.unflatten(-1, {3, 2}));  // (B, T, 3)
  };
  static constexpr auto real = [](const T& z) { return torch::view_as_real(z); };
  with("complex", [](T x) { return real(torch::complex(x, x.flip({-1}))); });
  with("complex_broadcast",
       [](T x) { return real(torch::complex(x, x.select(1, 0).unsqueeze(1))); });
  with("polar", [](T x) { return real(torch::polar(x.abs(), x * 3)); });
  with("parts_of_complex", [](T x) {
    const auto z = complex(x) * complex(x);
    return Tensors{torch::real(z), torch::imag(z), z.abs(), (z + 0.1).angle()};
  });
  with("complex_rotation", [](T x) {  // as in rotary position encodings
    const auto angles = x.mean(at::IntArrayRef{0, 2}).unsqueeze(1) * torch::arange(3);  // (T, 3)
    const auto turns = torch::polar(torch::ones_like(angles), angles);
    return real(complex(x) * turns).flatten(-2);
  });
  with("complex_arithmetic", [](T x) {
    const auto z = complex(x);
    const auto w = complex(x.flip({1}));
    const auto factor = x.slice(-1, 0, 3);
    return Tensors{real(z + w),
                   real(torch::sub(z, w, 2)),
                   real(z * w),
                   real(z * factor),
                   real(factor * z),
                   real(z + factor),
                   real(z / (w.abs() + 1)),
                   real(z / (w + 10)),
                   real(z * z.conj()),
                   real(z * 2),
                   real(z / 2),
                   real(z.conj().resolve_conj()),
                   real(z - 1)};
  });
  with("complex_shapes", [](T x) {
    const auto z = complex(x);
    return Tensors{real(z.flatten(0, 1)),
                   real(z.transpose(0, 1).contiguous()),
                   real(z.permute({2, 0, 1}).clone()),
                   real(z.view({-1, 3})),
                   real(z.flatten(1).reshape({-1, 3})),
                   real(z.unflatten(-1, {3, 1})),
                   real(z.unsqueeze(1).squeeze(1)),
                   real(z.select(-1, 1)),
                   real(z.slice(1, 1)),
                   real(torch::cat({z, z}, -1)),
                   real(torch::stack({z, z}, 1)),
                   real(z.ravel()),
                   real(torch::_unsafe_view(z, {-1, 3})),
                   real(z.view_as(z)),
                   real(z.reshape_as(z))};
  });
}

void add_fourier_transforms(OperatorTable& with) {
  static constexpr auto real = [](const T& z) { return torch::view_as_real(z); };
  with("rfft", [](T x) { return real(torch::fft_rfft(x)); });
  with("rfft_over_length", [](T x) { return real(torch::fft_rfft(x, {}, 1)); });
  with("rfft_ortho", [](T x) { return real(torch::fft_rfft(x, 9, -1, "ortho")); });
  // The first element of a transform is the sum, and the last the sum with alternating signs. If
  // they are negative, their phase is pi, not -pi.
  with("rfft_phase", [](T x) {
    const auto negative = -1 - x.abs();
    const auto signs = torch::tensor({1.0, -1.0, 1.0, -1.0, 1.0, -1.0}, x.options());
    return Tensors{torch::fft_rfft(negative).angle().select(-1, 0),
                   torch::fft_rfft(negative * signs).angle().select(-1, 3)};
  });
  with("rfft_cut", [](T x) { return torch::fft_rfft(x, 4, -1, "forward").abs(); });
  with("rfft_of_length_7", [](T x) { return real(torch::fft_rfft(x, 7, 1)); });
  with("irfft", [](T x) { return torch::fft_irfft(torch::fft_rfft(x)); });
  with("irfft_odd", [](T x) { return torch::fft_irfft(torch::fft_rfft(x, 5), 5, -1, "forward"); });
  with("irfft_over_length",
       [](T x) { return torch::fft_irfft(torch::fft_rfft(longer(x), {}, 1), {}, 1, "ortho"); });
  with("irfft_cut", [](T x) { return torch::fft_irfft(torch::fft_rfft(x, {}, 1), 4, 1); });
  with("fft", [](T x) { return torch::real(torch::fft_fft(torch::fft_fft(x), {}, 1)); });
  with("ifft", [](T x) { return real(torch::fft_ifft(torch::fft_fft(x), {}, -1, "ortho")); });
  with("filter", [](T x) {  // a convolution as a product of spectra
    const auto kernel = torch::fft_rfft(x.mean(at::IntArrayRef{0, 1}));
    return torch::fft_irfft(torch::fft_rfft(x) * kernel);
  });
}

std::vector<ExportCase> spectra() {
  OperatorTable with(floats());
  add_complex_numbers(with);
  add_fourier_transforms(with);
  static constexpr auto real = [](const T& z) { return torch::view_as_real(z); };
  // x.flatten(1) is a signal of 6 to 96 samples.
  with("stft", [](T x) {
    return real(torch::stft(x.flatten(1), 8, 3, 8, torch::hann_window(8), /*center=*/true,
                            "reflect", false, true, true));
  });
  with("stft_magnitudes", [](T x) {  // as in a log-mel spectrogram
    const auto spectrum = torch::stft(x.flatten(1), 10, 2, 10, torch::hamming_window(10), true,
                                      "reflect", false, true, true);
    const auto filters = torch::linspace(0, 1, 6 * 4).view({4, 6});
    return torch::matmul(filters, spectrum.abs().square()).clamp_min(1e-3).log10();
  });
  with("stft_short_window", [](T x) {
    return real(torch::stft(x.flatten(1), 9, {}, 5, torch::hamming_window(5, /*periodic=*/false),
                            true, "constant", true, false, true));
  });
  with("stft_not_centered", [](T x) {
    return real(torch::stft(x.flatten(1), 6, 4, 4, {}, /*normalized=*/false, true, true));
  });
  with("stft_as_real_numbers", [](T x) {
    return Tensors{torch::stft(x.flatten(1), 6, 2, 6, {}, true, "reflect", false, true,
                               /*return_complex=*/false),
                   torch::stft(x.flatten(1), 6, 2, 6, {}, false, true, /*return_complex=*/false)};
  });
  with("stft_of_one_signal", [](T x) {
    return real(torch::stft(x.flatten(), 6, 2, 6, torch::hann_window(6, /*periodic=*/false), true,
                            "replicate", false, true, true));
  });
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  in_float64("rfft_over_length", [](T x) { return real(torch::fft_rfft(x, {}, 1)); });
  in_float64("stft", [](T x) {
    return real(torch::stft(x.flatten(1), 8, 3, 8, torch::hann_window(8, torch::kDouble), true,
                            "reflect", false, true, true));
  });
  in_float64("polar", [](T x) { return real(torch::polar(x.abs(), x)); });
  return joined({with.take(), in_float64.take()});
}

}  // namespace

std::vector<ExportCase> signal_operators() {
  return joined({windows(), sampled(), spectra()});
}

}  // namespace attend
