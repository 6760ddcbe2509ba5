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
  with("slice_last", [](T x) { return x.slice(1, -7); });
  with("slice_from", [](T x) { return x.slice(1, 3); });
  with("slice_middle", [](T x) { return x.slice(1, 3, 7); });
  with("slice_then_flatten", [](T x) { return x.slice(1, 0, 7).flatten(0, 1); });
  with("slice_then_contiguous", [](T x) { return x.slice(1, -7).transpose(0, 1).contiguous(); });
  with("slice_then_std", [](T x) { return x.slice(1, -7).std(1, /*unbiased=*/false); });
  with("slice_then_var_mean", [](T x) {
    const auto [variance, mean] = torch::var_mean(x.slice(1, -7), 1, /*unbiased=*/false);
    return std::vector{variance, mean};
  });
  with("slice_then_roll", [](T x) { return x.slice(1, -7).roll(2, 1); });
  with("slice_then_sort", [](T x) { return std::get<0>(x.slice(1, -7).sort(1)); });
  with("slice_then_causal_attention", [](T x) {
    const auto last = x.slice(1, -7).unsqueeze(1);
    return torch::scaled_dot_product_attention(last, last, last, {}, 0.0, /*is_causal=*/true);
  });
  with("select", [](T x) { return x.select(-1, 2); });
  with("select_last", [](T x) { return x.select(1, -1); });
  with("narrow", [](T x) { return x.narrow(-1, 1, 3); });
  with("narrow_negative_start", [](T x) { return x.narrow(-1, -2, 2); });
  with("narrow_tensor_start", [](T x) {
    const auto start = [](int64_t number) { return torch::tensor(number, torch::kLong); };
    return Tensors{x.narrow(-1, start(2), 3), x.narrow(-1, start(-3), 3),
                   x.narrow(-1, start(-5), 3), x.narrow(-1, start(0), 0)};
  });
  with("split", [](T x) { return x.split(4, -1); });
  with("split_single", [](T x) { return x.split(6, -1); });
  with("split_sizes", [](T x) { return x.split({1, 5}, -1); });
  with("split_with_sizes", [](T x) { return x.split_with_sizes({1, 2, 3}, -1); });
  with("tensor_split", [](T x) { return x.tensor_split(4, -1); });
  with("tensor_split_length", [](T x) { return torch::cat({x, x + 1, x}, 1).tensor_split(3, 1); });
  with("tensor_split_at", [](T x) { return x.tensor_split({1, 4, 4, 9}, 2); });
  with("tensor_split_length_at", [](T x) { return x.tensor_split({2, 5}, 1); });
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
