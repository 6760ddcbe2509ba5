#include "export/operator_case.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;

std::vector<ExportCase> parts() {
  OperatorTable with(floats());
  with("slice", [](T x) { return x.slice(-1, 1, -1); });
  with("slice_with_step", [](T x) { return x.slice(-1, 0, 6, 2); });
  with("slice_start", [](T x) { return x.slice(1, 1); });
  with("slice_negative_end", [](T x) { return x.slice(1, 0, -1); });
  with("slice_end", [](T x) { return x.slice(1, 0, 3); });
  with("select", [](T x) { return x.select(-1, 2); });
  with("select_last", [](T x) { return x.select(1, -1); });
  with("narrow", [](T x) { return x.narrow(-1, 1, 3); });
  with("narrow_negative_start", [](T x) { return x.narrow(-1, -2, 2); });
  with("narrow_tensor_start", [](T x) { return x.narrow(-1, torch::tensor(2, torch::kLong), 3); });
  with("split", [](T x) { return x.split(4, -1); });
  with("split_single", [](T x) { return x.split(6, -1); });
  with("split_sizes", [](T x) { return x.split({1, 5}, -1); });
  with("split_with_sizes", [](T x) { return x.split_with_sizes({1, 2, 3}, -1); });
  with("chunk", [](T x) { return x.chunk(4, -1); });
  with("chunk_length", [](T x) { return torch::cat({x, x + 1}, 1).chunk(2, 1); });
  with("unsafe_chunk", [](T x) { return x.unsafe_chunk(4, -1); });
  with("unsafe_split", [](T x) { return x.unsafe_split(4, -1); });
  with("unsafe_split_with_sizes", [](T x) { return x.unsafe_split_with_sizes({2, 4}, -1); });
  with("unbind", [](T x) { return x.unbind(-1); });
  return with.take();
}

std::vector<ExportCase> padded() {
  using Options = F::PadFuncOptions;
  OperatorTable with(floats());
  with("pad", [](T x) { return torch::pad(x, {1, 2, 0, 1}, "constant", 3); });
  with("pad_reflect", [](T x) { return torch::pad(x, {2, 1}, "reflect"); });
  with("pad_replicate", [](T x) { return torch::pad(x, {2, 1}, "replicate"); });
  with("pad_circular", [](T x) { return torch::pad(x, {2, 1}, "circular"); });
  with("pad_negative", [](T x) { return torch::pad(x, {-1, 2}); });
  with("constant_pad", [](T x) { return torch::constant_pad_nd(x, {1, 2}, 0.5); });
  with("functional_pad", [](T x) { return F::pad(x, Options({1, 2, 0, 1}).value(3)); });
  with("functional_pad_reflect", [](T x) {
    return F::pad(x, Options({2, 1}).mode(torch::kReflect));
  });
  with("functional_pad_replicate", [](T x) {
    return F::pad(x, Options({2, 1}).mode(torch::kReplicate));
  });
  with("functional_pad_circular", [](T x) {
    return F::pad(x, Options({0, 4}).mode(torch::kCircular));
  });
  with("reflection_pad1d", [](T x) { return torch::reflection_pad1d(x, {2, 1}); });
  with("replication_pad1d", [](T x) { return torch::replication_pad1d(x, {2, 1}); });
  with("reflection_pad2d", [](T x) {
    return torch::reflection_pad2d(x.unflatten(-1, {2, 3}), {2, 1, 1, 0});
  });
  with("replication_pad2d", [](T x) {
    return torch::replication_pad2d(x.unflatten(-1, {2, 3}), {2, 1, 1, 3});
  });
  with("reflection_pad3d", [](T x) {
    return torch::reflection_pad3d(x.unflatten(-1, {1, 2, 3}), {2, 1, 1, 0, 0, 0});
  });
  with("replication_pad3d", [](T x) {
    return torch::replication_pad3d(x.unflatten(-1, {1, 2, 3}), {2, 1, 1, 3, 1, 1});
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> slice_operators() {
  return joined({parts(), padded()});
}

}  // namespace attend
