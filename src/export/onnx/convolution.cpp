#include "export/onnx/rearrange.h"
#include "export/onnx/rules.h"

#include <algorithm>

namespace attend::onnx {
namespace {

using Numbers = std::vector<int64_t>;

/// One number for each dimension of space; one that is given counts for all.
Numbers for_each(Call& call, const char* name, std::size_t count, int64_t otherwise) {
  if (!call.has(name)) return Numbers(count, otherwise);
  auto numbers = call.integers(name);
  if (numbers.size() == 1) numbers.resize(count, numbers.front());
  return numbers;
}

/// What is added in front of and behind each dimension.
Numbers pads_of(Call& call, const Numbers& kernel, const Numbers& dilation) {
  const auto count = kernel.size();
  Numbers pads;
  Numbers behind;
  const bool in_words = call.has("padding") && call.is_text("padding");
  const bool same = in_words && call.text("padding") == "same";
  for (std::size_t i = 0; i < count; ++i) {
    if (in_words) {
      const auto total = same ? dilation[i] * (kernel[i] - 1) : 0;
      pads.push_back(total / 2);
      behind.push_back(total - total / 2);
    } else {
      pads.push_back(for_each(call, "padding", count, 0)[i]);
      behind.push_back(pads.back());
    }
  }
  pads.insert(pads.end(), behind.begin(), behind.end());
  return pads;
}

void convolve_as(Call& call, bool transposed) {
  auto& graph = call.graph();
  // Runtimes convolve float32 and narrower alone.
  const auto type = call.result_type();
  const auto computed = type == Type::float64 ? Type::float32 : type;
  const auto count = static_cast<std::size_t>(call.rank("weight")) - 2;
  Numbers kernel;
  for (std::size_t i = 0; i < count; ++i) kernel.push_back(call.sizes("weight").at(i + 2).value);
  const auto dilation = for_each(call, "dilation", count, 1);
  Attributes attributes{{"kernel_shape", kernel},
                        {"strides", for_each(call, "stride", count, 1)},
                        {"dilations", dilation},
                        {"pads", pads_of(call, kernel, dilation)},
                        {"group", call.integer("groups")}};
  if (transposed) attributes["output_padding"] = for_each(call, "output_padding", count, 0);
  const bool single = call.rank("input") == static_cast<int64_t>(count) + 1;
  auto input = call.operand("input", computed);
  if (single) input = unsqueeze(call, input, {0});
  std::vector<Value> inputs{input, call.operand("weight", computed)};
  if (call.has("bias")) inputs.push_back(call.operand("bias", computed));
  auto result = graph.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  if (single) result = squeeze(call, result, {0});
  call.give(result);
}

void convolve(Call& call) {
  convolve_as(call, call.flag("transposed"));
}

void convolve_transposed(Call& call) {
  convolve_as(call, /*transposed=*/true);
}

}  // namespace

void add_convolution_rules(Rules& rules) {
  for (const auto* kind : {"1d", "2d", "3d"}) {
    const auto name = std::string("conv") + kind;
    rules[name + ".default"] = rules[name + ".padding"] = convolve;
  }
  rules["_convolution_mode.default"] = convolve;
  rules["convolution.default"] = rules["_convolution.default"] = convolve;
  rules["conv_transpose1d.default"] = rules["conv_transpose2d.input"] =
      rules["conv_transpose3d.input"] = convolve_transposed;
}

}  // namespace attend::onnx
