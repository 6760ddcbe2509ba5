#include "export/onnx/complex.h"
#include "export/onnx/rules.h"
#include "export/onnx/slices.h"
#include "export/onnx/windows.h"

#include <cmath>
#include <string>

namespace attend::onnx {
namespace {

// Fourier transforms are products with matrices of cosines and sines, which the file computes. The
// operator DFT is not used: in onnxruntime, its errors for sizes that are not powers of two exceed
// those of LibTorch by a factor of 1000.

/// Sines and cosines of 2*pi*j*k/n.
struct Waves {
  Value cos;
  Value sin;
};

/// Returns the waves as matrices of shape (samples, frequencies). All arguments are 0-dimensional
/// int64 tensors; n is the number of points of the transform.
Waves waves(Call& call, Value n, Value samples, Value frequencies, Type type) {
  auto& graph = call.graph();
  const auto column = unsqueeze(call, graph.range(samples), {1});
  // j*k is reduced modulo n in integers, since cosines of large numbers would be inaccurate.
  const auto turns = graph.add("Mod", {graph.add("Mul", {column, graph.range(frequencies)}), n});
  const auto step =
      graph.add("Div", {graph.number(Type::float64, 2 * M_PI), graph.cast(n, Type::float64)});
  const auto angles = graph.add("Mul", {graph.cast(turns, Type::float64), step});
  // The sine of a half turn is exactly 0, as in LibTorch: its rounding error would decide whether
  // the phase of a negative number is pi or -pi.
  const auto is_half =
      graph.compare("Equal", graph.add("Mul", {turns, graph.number(Type::int64, 2)}), n);
  const auto sin = graph.where(is_half, graph.number(Type::float64, 0), graph.add("Sin", {angles}));
  return {graph.cast(graph.add("Cos", {angles}), type), graph.cast(sin, type)};
}

/// Returns the transform of the last dimension of `x`, whose imaginary part may be an empty Value.
/// The sign of the exponent is -1 for the forward and +1 for the inverse transform.
Complex transform(Call& call, const Complex& x, const Waves& waves, bool inverse) {
  auto& graph = call.graph();
  const auto product = [&](Value a, Value b) { return graph.add("MatMul", {a, b}); };
  const Complex of_re{product(x.re, waves.cos), product(x.re, waves.sin)};
  if (x.im.id == 0 && inverse) return of_re;
  // 0 - x is 0 if x is 0, while -x would be -0, whose phase is that of a number below the axis.
  if (x.im.id == 0) return {of_re.re, graph.add("Sub", {graph.number(of_re.im.type, 0), of_re.im})};
  const Complex of_im{product(x.im, waves.sin), product(x.im, waves.cos)};
  const auto* of_real = inverse ? "Sub" : "Add";
  const auto* of_imaginary = inverse ? "Add" : "Sub";
  return {graph.add(of_real, {of_re.re, of_im.re}), graph.add(of_imaginary, {of_im.im, of_re.im})};
}

Value scaled_by(Call& call, Value value, Value factor) {
  return call.graph().add("Mul", {value, call.graph().cast(factor, value.type)});
}

/// Returns the factor by which the argument `norm` multiplies a transform of n points (int64), as a
/// float64, or an empty Value for 1.
Value norm_factor(Call& call, Value n, bool inverse) {
  auto& graph = call.graph();
  const auto norm = call.has("norm") ? call.string("norm") : "backward";
  const auto count = graph.cast(n, Type::float64);
  if (norm == "ortho") return graph.add("Reciprocal", {graph.add("Sqrt", {count})});
  if ((norm == "forward") == inverse) return {};
  return graph.add("Reciprocal", {count});
}

/// Cuts the last dimension of `value`, which has `rank` dimensions, to `length` elements, or adds
/// zeros.
Value with_length(Call& call, Value value, int64_t rank, int64_t length) {
  auto& graph = call.graph();
  std::vector<int64_t> padding(2 * static_cast<std::size_t>(rank), 0);
  padding.back() = length;
  return slice(call, graph.add("Pad", {value, graph.list(padding)}), rank - 1, 0, length);
}

enum class Output { complex, onesided, real };

/// Returns the translation rule of a Fourier transform along the dimension `dim`.
Rule fourier(bool inverse, Output output) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto number = [&](int64_t value) { return graph.number(Type::int64, value); };
    const auto type = call.result_type();
    const auto rank = call.rank("self");
    const auto dimension = call.dimension("dim");
    Complex x = call.is_complex("self") ? parts_of(call, call.tensor("self"))
                                        : Complex{call.operand("self", type), {}};
    const auto each = [&](const auto& change) {
      x.re = change(x.re);
      if (x.im.id != 0) x.im = change(x.im);
    };
    each([&](Value value) { return swap(call, value, rank, dimension, rank - 1); });
    // `n` is the number of points in the time domain. A one-sided spectrum has n/2 + 1 elements.
    Value n;
    if (call.has("n")) {
      const auto points = call.integer("n");
      const auto length = output == Output::real ? points / 2 + 1 : points;
      each([&](Value value) { return with_length(call, value, rank, length); });
      n = number(points);
    } else {
      n = squeeze(call, call.size(call.sizes("self").at(static_cast<std::size_t>(dimension))), {0});
      if (output == Output::real)
        n = graph.add("Mul", {graph.add("Sub", {n, number(1)}), number(2)});
    }
    const auto half = graph.add("Add", {graph.add("Div", {n, number(2)}), number(1)});
    if (output == Output::real) {
      // The elements that a one-sided spectrum omits are the conjugates of the others, so these
      // count twice, except the first and, if n is even, the last.
      const auto k = graph.range(half);
      const auto is_single =
          graph.add("Or", {graph.compare("Equal", k, number(0)),
                           graph.compare("Equal", graph.add("Mul", {k, number(2)}), n)});
      const auto counts = graph.where(is_single, graph.number(type, 1), graph.number(type, 2));
      each([&](Value value) { return graph.add("Mul", {value, counts}); });
    }
    const auto samples = output == Output::real ? half : n;
    const auto frequencies = output == Output::onesided ? half : n;
    x = transform(call, x, waves(call, n, samples, frequencies, type), inverse);
    if (output == Output::real) x.im = {};
    const auto factor = norm_factor(call, n, inverse);
    if (factor.id != 0) each([&](Value value) { return scaled_by(call, value, factor); });
    each([&](Value value) { return swap(call, value, rank, dimension, rank - 1); });
    call.set_output(output == Output::real ? x.re : joined(call, x));
  };
}

/// Translates stft: the Fourier transforms of windows of a signal (..., T), as a tensor of shape
/// (..., frequencies, windows).
void stft(Call& call) {
  auto& graph = call.graph();
  if (call.is_complex("self")) call.fail("complex signals are not supported");
  if (call.boolean("align_to_window")) call.fail("align_to_window is not supported");
  const auto points = call.integer("n_fft");
  const auto width = call.has("win_length") ? call.integer("win_length") : points;
  const auto type = call.result_type();
  const auto rank = call.rank("self");
  auto signal = call.operand("self", type);
  auto length = call.size(call.sizes("self").back());
  if (call.boolean("center")) {
    std::vector<int64_t> padding(2 * static_cast<std::size_t>(rank), 0);
    padding.at(static_cast<std::size_t>(rank) - 1) = padding.back() = points / 2;
    const auto mode = call.has("pad_mode") ? call.string("pad_mode") : "reflect";
    signal = graph.add("Pad", {signal, graph.list(padding)},
                       {{"mode", mode == "replicate" ? "edge" : mode}});
    length = graph.add("Add", {length, graph.list({points / 2 * 2})});
  }
  const auto hop = call.has("hop_length") ? call.integer("hop_length") : points / 4;
  auto windows = windows_over(call, signal, rank - 1, length, {.size = points, .stride = hop});
  if (call.has("window") || width < points) {
    auto window = call.has("window")
                      ? call.operand("window", type)
                      : graph.add("Expand", {graph.number(type, 1), graph.list({width})});
    const auto before = (points - width) / 2;
    window = graph.add("Pad", {window, graph.list({before, points - width - before})});
    windows = graph.add("Mul", {windows, window});  // (..., windows, n_fft)
  }
  const bool is_onesided = !call.has("onesided") || call.boolean("onesided");
  const auto n = graph.number(Type::int64, points);
  const auto frequencies = graph.number(Type::int64, is_onesided ? points / 2 + 1 : points);
  auto spectrum =
      transform(call, {windows, {}}, waves(call, n, n, frequencies, type), /*inverse=*/false);
  for (auto* part : {&spectrum.re, &spectrum.im}) {
    if (call.boolean("normalized")) {
      const auto factor = 1.0 / std::sqrt(static_cast<double>(points));
      *part = graph.add("Mul", {*part, graph.number(type, factor)});
    }
    *part = swap(call, *part, rank + 1, rank - 1, rank);  // (..., frequencies, windows)
  }
  call.set_output(joined(call, spectrum));
}

}  // namespace

void add_fourier_rules(Rules& rules) {
  const auto add = [&](const std::string& name, const Rule& rule) {
    rules[kComplexPrefix + name] = rule;
  };
  add("fft_fft.default", fourier(/*inverse=*/false, Output::complex));
  add("fft_ifft.default", fourier(/*inverse=*/true, Output::complex));
  add("fft_rfft.default", fourier(/*inverse=*/false, Output::onesided));
  add("fft_irfft.default", fourier(/*inverse=*/true, Output::real));
  // With return_complex = false, the result is the same tensor as a real one.
  for (const auto* name : {"stft.default", "stft.center"}) {
    rules[name] = stft;
    add(name, stft);
  }
}

}  // namespace attend::onnx
