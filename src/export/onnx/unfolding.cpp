#include "export/onnx/rules.h"
#include "export/onnx/windows.h"

#include <algorithm>

namespace attend::onnx {
Value windows_over(Call& call, Value value, int64_t dimension, Value length,
                   const Windows& windows) {
  auto& graph = call.graph();
  const auto list = [&](int64_t number) { return graph.list({number}); };
  const auto reach = windows.dilation * (windows.size - 1) + 1;
  auto count = graph.add("Add", {length, list(windows.stride - reach)});
  count = graph.add("Div", {count, list(windows.stride)});
  const auto starts = graph.add(
      "Mul", {unsqueeze(call, graph.range(squeeze(call, count, {0})), {1}), list(windows.stride)});
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < windows.size; ++i) offsets.push_back(i * windows.dilation);
  const auto indices = graph.add("Add", {starts, graph.list(offsets)});
  return graph.add("Gather", {value, indices}, {{"axis", dimension}});
}

namespace {

void unfold(Call& call) {
  const auto self = call.tensor("self");
  const auto size = call.integer("size");
  if (call.rank("self") == 0) return call.set_output(call.reshape(self, {}, call.result_sizes()));
  const auto dimension = call.dimension("dimension");
  const auto& length = call.sizes("self").at(static_cast<std::size_t>(dimension));
  const auto windows = windows_over(call, self, dimension, call.size(length),
                                    {.size = size, .stride = call.integer("step")});
  auto order = all_dimensions(call.result_rank());  // the elements of a window become the last
  std::rotate(order.begin() + dimension + 1, order.begin() + dimension + 2, order.end());
  call.set_output(transpose(call, windows, order));
}

void im2col(Call& call) {
  auto& graph = call.graph();
  const auto kernel = for_each_dimension(call, "kernel_size", 2, {});
  const auto padding = for_each_dimension(call, "padding", 2, {0});
  const auto stride = for_each_dimension(call, "stride", 2, {1});
  const auto dilation = for_each_dimension(call, "dilation", 2, {1});
  const auto& sizes = call.sizes("self");
  const auto rank = call.rank("self");
  const auto self = call.tensor("self");
  const auto columns = in_batch(call, self, rank, 2, [&](Value image) {
    const bool pads = padding[0] != 0 || padding[1] != 0;
    if (pads) {
      const std::vector<int64_t> around{0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]};
      image = graph.add("Pad", {image, graph.list(around)});
    }
    const auto length = [&](std::size_t i) {
      const auto size = call.size(sizes.at(static_cast<std::size_t>(rank) - 2 + i));
      return pads ? graph.add("Add", {size, graph.list({2 * padding[i]})}) : size;
    };
    const auto windows = [&](std::size_t i) -> Windows {
      return {.size = kernel[i], .stride = stride[i], .dilation = dilation[i]};
    };
    // (N, C, H, W) -> (N, C, rows of windows, kernel[0], columns of windows, kernel[1])
    auto all = windows_over(call, image, 2, length(0), windows(0));
    all = windows_over(call, all, 4, length(1), windows(1));
    return transpose(call, all, {0, 1, 3, 5, 2, 4});
  });
  // The first size of a batch stays; the others are merged.
  const Sizes kept(sizes.begin(), sizes.begin() + (rank - 3));
  call.set_output(call.reshape(columns, kept, call.result_sizes()));
}

/// Translates col2im, the inverse of im2col, which adds the elements of overlapping windows.
void col2im(Call& call) {
  auto& graph = call.graph();
  const auto padding = for_each_dimension(call, "padding", 2, {0});
  const auto image = call.shape({call.result_sizes().end() - 2, call.result_sizes().end()});
  const auto kernel = graph.list(for_each_dimension(call, "kernel_size", 2, {}));
  const Attributes attributes{{"dilations", for_each_dimension(call, "dilation", 2, {1})},
                              {"pads", Numbers{padding[0], padding[1], padding[0], padding[1]}},
                              {"strides", for_each_dimension(call, "stride", 2, {1})}};
  call.set_output(in_batch(call, call.tensor("self"), call.rank("self"), 1, [&](Value columns) {
    return graph.add("Col2Im", {columns, image, kernel}, attributes);
  }));
}

}  // namespace

void add_unfolding_rules(Rules& rules) {
  rules["unfold.default"] = unfold;
  rules["im2col.default"] = im2col;
  rules["col2im.default"] = col2im;
}

}  // namespace attend::onnx
