#include "export/operator_case.h"

#include <torch/types.h>

namespace attend {
namespace {

using T = torch::Tensor;

std::vector<ExportCase> reshaped() {
  OperatorTable with(floats());
  with("input_only", [](T x) { return x; });
  with("constants_only", [](T) { return Tensors{torch::arange(3), torch::tensor(2.5)}; });
  with("view", [](T x) { return x.view({-1, 6}); });
  with("view_without_copy", [](T x) { return torch::_unsafe_view(x, {-1, 6}); });
  with("view_as", [](T x) { return x.flatten().view_as(x); });
  with("reshape", [](T x) { return x.reshape({-1, 2}); });
  with("reshape_as", [](T x) { return x.transpose(0, 1).reshape_as(x); });
  with("ravel", [](T x) { return x.ravel(); });
  with("flatten", [](T x) { return x.flatten(1); });
  with("flatten_rows", [](T x) { return x.flatten(0, 1); });
  with("unflatten", [](T x) { return x.unflatten(-1, {2, 3}); });
  with("unflatten_rest", [](T x) { return x.flatten().unflatten(0, {-1, 3}); });
  with("squeeze", [](T x) { return torch::cat({x, x}, 1).unsqueeze(1).squeeze(1); });
  with("squeeze_no_op", [](T x) { return x.squeeze(-1); });
  with("squeeze_two", [](T x) {
    return x.unsqueeze(0).unsqueeze(-1).squeeze(torch::IntArrayRef({0, -1}));
  });
  with("squeeze_all", [](T x) { return x.sum(at::IntArrayRef{0, 1}, /*keepdim=*/true).squeeze(); });
  with("unsqueeze", [](T x) { return x.unsqueeze(-1).unsqueeze(0); });
  with("expand", [](T x) { return x.unsqueeze(1).expand({-1, 3, -1, -1}); });
  with("expand_as", [](T x) { return x.sum(1, true).expand_as(x); });
  with("broadcast_to", [](T x) { return x.sum(at::IntArrayRef{0, 1}).broadcast_to({2, 3, 6}); });
  with("broadcast_tensors", [](T x) { return torch::broadcast_tensors({x, x.sum(1, true)}); });
  return with.take();
}

std::vector<ExportCase> reordered() {
  OperatorTable with(floats());
  with("transpose", [](T x) { return x.transpose(1, -1); });
  with("t", [](T x) { return x.flatten(0, 1).t(); });
  with("mT", [](T x) { return x.mT(); });
  with("mH", [](T x) { return x.mH(); });
  with("matrix_H", [](T x) { return x.flatten(0, 1).matrix_H(); });
  with("numpy_T", [](T x) { return x.numpy_T(); });
  with("permute", [](T x) { return x.permute({2, -3, 1}); });
  with("movedim", [](T x) { return x.movedim(0, 2); });
  with("movedim_two", [](T x) {
    return x.movedim(torch::IntArrayRef({0, 1}), torch::IntArrayRef({-1, 0}));
  });
  with("flip", [](T x) { return x.flip({1, 2}); });
  with("roll", [](T x) { return x.roll(2, 1); });
  with("roll_two", [](T x) { return x.roll({-1, 8}, {1, 2}); });
  with("roll_more_than_size", [](T x) { return x.roll({10, -21}, {1, 0}); });
  with("tril", [](T x) { return x.tril(); });
  with("tril_below", [](T x) { return x.tril(-1); });
  with("triu", [](T x) { return x.triu(1); });
  with("tril_of_bools", [](T x) { return (x > 0).tril(); });
  with("tril_of_integers", [](T x) { return (x * 9).to(torch::kLong).tril(); });
  with("pixel_shuffle", [](T x) {
    return torch::pixel_shuffle(x.unsqueeze(1) * torch::arange(1, 9).view({1, 8, 1, 1}), 2);
  });
  return with.take();
}

void add_diagonals(OperatorTable& with) {
  with("diagonal", [](T x) { return x.diagonal(); });
  with("diagonal_below", [](T x) { return x.diagonal(-1, 1, 2); });
  with("diagonal_above", [](T x) { return x.diagonal(2, 1, -1); });
  with("diagonal_far_away", [](T x) { return x.diagonal(9, 1, 2); });  // may be empty
  with("diagonal_of_reversed", [](T x) { return x.diagonal(1, 2, 0); });
  with("diag_embed", [](T x) { return x.diag_embed(); });
  with("diag_embed_below", [](T x) { return x.diag_embed(-2); });
  with("diag_embed_first", [](T x) { return x.diag_embed(1, 0, 2); });
  with("diag_of_matrix", [](T x) { return x.select(0, 0).diag(-1); });
  with("diag_of_vector", [](T x) { return x.select(0, 0).select(1, 2).diag(3); });
}

std::vector<ExportCase> diagonals() {
  OperatorTable with(floats());
  add_diagonals(with);
  with("trace", [](T x) { return x.select(0, 0).trace(); });
  with("tril_indices", [](T x) {
    const auto square = x.select(0, 0).mT().matmul(x.select(0, 0));  // (6, 6)
    const auto below = torch::tril_indices(6, 6, -1);
    const auto above = torch::triu_indices(5, 6, 2, torch::kInt);
    return Tensors{square.index({below[0], below[1]}), above, torch::tril_indices(3, 5, 2)};
  });
  with("triu_indices_of_length", [](T x) {
    return Tensors{torch::triu_indices(x.size(1), x.size(1)), torch::tril_indices(4, x.size(1), 1)};
  });
  with("meshgrid", [](T x) {
    return torch::meshgrid({x.select(0, 0).select(1, 0), x.mean(at::IntArrayRef{0, 1})}, "ij");
  });
  with("meshgrid_xy", [](T x) {
    return torch::meshgrid({x.select(0, 0).select(1, 0), x.select(1, 0).select(1, 0), x.sum()},
                           "xy");
  });
  with("meshgrid_by_default", [](T x) {
    return torch::meshgrid({x.flatten(), x.select(1, 0).select(1, 0)});
  });
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  add_diagonals(in_float64);
  OperatorTable of_integers(integers(), "_of_integers");
  of_integers("diagonal", [](T x) { return x.diagonal(); });
  of_integers("trace", [](T x) { return x.trace(); });
  of_integers("diag_embed", [](T x) { return x.diag_embed(); });
  of_integers("diag_embed_of_bools", [](T x) { return (x > 0).diag_embed(1); });
  return joined({with.take(), in_float64.take(), of_integers.take()});
}

std::vector<ExportCase> repeated_and_joined() {
  OperatorTable with(floats());
  with("repeat", [](T x) { return x.repeat({2, 1, 1, 2}); });
  with("tile", [](T x) { return x.tile({2}); });
  with("repeat_interleave", [](T x) { return x.repeat_interleave(2, 1); });
  with("repeat_interleave_width", [](T x) { return x.repeat_interleave(3, -1); });
  with("repeat_interleave_all", [](T x) { return x.repeat_interleave(2); });
  with("cat", [](T x) { return torch::cat({x, x * 2, x.slice(1, 0, 1)}, 1); });
  with("cat_mixed_types", [](T x) { return torch::cat({x, x > 0, x.to(torch::kInt)}, -1); });
  with("cat_empty", [](T x) { return torch::cat({torch::zeros({0}), x}, 1); });
  with("stack", [](T x) { return torch::stack({x, x + 1}, 1); });
  with("stack_last", [](T x) { return torch::stack({x, x + 1}, -1); });
  return with.take();
}

/// Identities and casts.
std::vector<ExportCase> copied() {
  OperatorTable with(floats());
  with("identity", [](T x) { return x; });
  with("contiguous", [](T x) { return x.transpose(0, 1).contiguous(); });
  with("clone", [](T x) { return x.clone(); });
  with("detach", [](T x) { return x.detach(); });
  with("detach_copy", [](T x) { return torch::detach_copy(x); });
  with("alias", [](T x) { return torch::alias(x); });
  with("lift", [](T x) { return torch::lift(x); });
  with("lift_fresh", [](T x) { return torch::lift_fresh(x); });
  with("lift_fresh_copy", [](T x) { return torch::lift_fresh_copy(x); });
  with("resolve_conj", [](T x) { return x.resolve_conj(); });
  with("resolve_neg", [](T x) { return x.resolve_neg(); });
  with("to_copy", [](T x) { return torch::_to_copy(x, x.options().dtype(torch::kDouble)); });
  with("to_integers", [](T x) { return (x * 3).to(torch::kLong); });
  with("to_32_bits", [](T x) { return (x * 3).to(torch::kInt); });
  with("to_bools", [](T x) { return x.relu().to(torch::kBool); });
  with("to_float16_and_back", [](T x) { return x.to(torch::kHalf).to(torch::kFloat); });
  with("to_bfloat16_and_back", [](T x) { return x.to(torch::kBFloat16).to(torch::kFloat); });
  with("to_options", [](T x) { return x.to(torch::TensorOptions(torch::kDouble)); });
  with("to_device_and_type", [](T x) { return x.to(torch::kCPU, torch::kDouble); });
  with("to_other", [](T x) { return (x > 0).to(x.exp()); });
  with("type_as", [](T x) { return (x > 0).type_as(x); });
  return with.take();
}

}  // namespace

std::vector<ExportCase> shape_operators() {
  return joined({reshaped(), reordered(), repeated_and_joined(), diagonals(), copied()});
}

}  // namespace attend
