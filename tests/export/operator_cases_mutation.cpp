#include "export/operator_case.h"

#include <torch/types.h>

namespace attend {
namespace {

using T = torch::Tensor;
using torch::indexing::Ellipsis;
using torch::indexing::Slice;

/// In-place operators on tensors and views, which the exporter functionalizes.
std::vector<ExportCase> in_place() {
  OperatorTable with(floats());
  with("in_place", [](T x) { return x.clone().relu_().add_(1).mul_(2); });
  with("in_place_sharing_input", [](T x) {
    const auto y = x * 1;
    y.select(0, 0).select(0, 0).add_(1);
    return y + x;
  });
  with("in_place_select_and_slice", [](T x) {
    const auto y = x * 1;
    y.select(-1, 0).fill_(3);
    y.slice(-1, 2, 4).mul_(2);
    return y;
  });
  with("in_place_narrow", [](T x) {
    auto y = torch::zeros_like(x);
    y.narrow(-1, 0, 2).copy_(x.narrow(-1, 2, 2));
    y.narrow(-1, -2, 2).add_(x.narrow(-1, 0, 2));
    return y;
  });
  with("in_place_reshaped", [](T x) {
    const auto y = x * 1;
    y.unsqueeze(0).add_(1);
    y.flatten(1).mul_(2);
    return y;
  });
  with("in_place_raveled", [](T x) {
    const auto y = x * 1;
    y.ravel().add_(1);
    y.reshape_as(x).mul_(2);
    return y;
  });
  with("in_place_unsqueezed_and_contiguous", [](T x) {
    const auto y = x * 1;
    y.select(0, 0).unsqueeze_(0).add_(1);
    y.contiguous().mul_(2);
    return y;
  });
  with("in_place_and_copies", [](T x) {
    const auto y = x * 1;
    const auto copy = y.to(torch::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const auto same = y.type_as(x);
    y.add_(1);
    return Tensors{copy * 1, same * 1};
  });
  with("in_place_flattened_copy", [](T x) {
    const auto flat = (x * 1).transpose(0, 1).flatten();
    flat.add_(1);
    return flat;
  });
  with("in_place_shapes", [](T x) {
    const auto y = x * 1;
    const auto row = y.select(0, 0).t_();
    const auto column = y.select(2, 0).unsqueeze_(0);
    y.add_(1);
    return Tensors{row * 1, column * 1, y};
  });
  with("shorter_slices_at_one", [](T x) {
    const auto y = x.slice(0, 0, 2).slice(1, 1, 3);
    return y.flatten() + 1;
  });
  with("reshaped_without_elements", [](T x) {
    const auto y = x.slice(1, 1, 3);
    return Tensors{y.flatten().relu().view_as(y), y.transpose(0, 1).unsqueeze(1).flatten(1, 2)};
  });
  with("in_place_base_of_views", [](T x) {
    const auto y = x.clone();
    const auto unsqueezed = y.unsqueeze(0);
    const auto column = y.select(-1, 1);
    const auto turned = y.transpose(0, 1);
    y.add_(1);
    column.mul_(2);
    return Tensors{y, unsqueezed, column, turned};
  });
  with("in_place_tensor_split", [](T x) {
    const auto y = x * 2;
    y.tensor_split(4, -1)[1].add_(1);
    return y;
  });
  with("in_place_chunks", [](T x) {
    const auto y = x * 2;
    const auto parts = y.chunk(3, -1);
    parts[0].sigmoid_();
    parts[1].tanh_();
    return Tensors{parts[0] * parts[1], parts[2] * 1, y};
  });
  with("in_place_unbound", [](T x) {
    const auto y = x * 2;
    const auto parts = y.unbind(-1);
    parts[3].sigmoid_();
    parts[1].tanh_();
    return y;
  });
  with("in_place_after_copy", [](T x) {
    const auto y = x.unflatten(-1, {2, 3}).transpose(2, 3).contiguous();
    y.relu_();
    return y.transpose(2, 3).flatten(2) + x;
  });
  with("in_place_indices", [](T x) {
    auto y = torch::zeros_like(x);
    y.index_put_({Slice(), 0}, x.select(1, 0));
    y.index_put_({Ellipsis, Slice(1, 3)}, 5.0);
    return y;
  });
  with("in_place_masked", [](T x) {
    const auto y = (x * 1).masked_fill_(x > 0, 0);
    const auto z = torch::empty_like(y);
    z.copy_(y);
    z.select(1, 0).zero_();
    return z;
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> mutation_operators() {
  return in_place();
}

}  // namespace attend
