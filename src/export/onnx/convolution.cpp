#include "export/onnx/rules.h"
#include "export/onnx/windows.h"

namespace attend::onnx {
namespace {

/// Returns the padding in ONNX's order: first the padding at the beginning of each dimension, then
/// the padding at the end of each dimension.
Numbers pads_of(Call& call, const Numbers& kernel, const Numbers& dilation) {
  const auto count = kernel.size();
  Numbers pads;
  Numbers ends;
  const bool is_string = call.has("padding") && call.is_string("padding");
  const bool same = is_string && call.string("padding") == "same";
  for (std::size_t i = 0; i < count; ++i) {
    if (is_string) {
      const auto total = same ? dilation[i] * (kernel[i] - 1) : 0;
      pads.push_back(total / 2);
      ends.push_back(total - total / 2);
    } else {
      pads.push_back(for_each_dimension(call, "padding", count, {0})[i]);
      ends.push_back(pads.back());
    }
  }
  pads.insert(pads.end(), ends.begin(), ends.end());
  return pads;
}

void convolve_as(Call& call, bool transposed) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto count = static_cast<std::size_t>(call.rank("weight")) - 2;
  Numbers kernel;
  for (std::size_t i = 0; i < count; ++i) {
    kernel.push_back(call.fixed(call.sizes("weight").at(i + 2), "the size of the kernel"));
  }
  const auto dilation = for_each_dimension(call, "dilation", count, {1});
  Attributes attributes{{"kernel_shape", kernel},
                        {"strides", for_each_dimension(call, "stride", count, {1})},
                        {"dilations", dilation},
                        {"pads", pads_of(call, kernel, dilation)},
                        {"group", call.integer("groups")}};
  if (transposed)
    attributes["output_padding"] = for_each_dimension(call, "output_padding", count, {0});
  const auto convolved = [&](Value input) {
    std::vector<Value> inputs{input, call.operand("weight", type)};
    if (call.has("bias")) inputs.push_back(call.operand("bias", type));
    return graph.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  };
  call.set_output(
      in_batch(call, call.operand("input", type), call.rank("input"), count, convolved));
}

void convolve(Call& call) {
  convolve_as(call, call.boolean("transposed"));
}

}  // namespace

void add_convolution_rules(Rules& rules) {
  // PyTorch's tracer records every convolution as one of these two operators.
  rules["_convolution.default"] = rules["_convolution_mode.default"] = convolve;
}

}  // namespace attend::onnx
