#include "export/operator_case.h"

#include <torch/types.h>

#include <cmath>

namespace attend {
namespace {

using T = torch::Tensor;

/// Returns x reshaped to (B*T, 6).
T rows(const T& x) {
  return x.flatten(0, 1);
}
/// Returns the mean of each feature, as a tensor of shape (6). Means are used instead of sums,
/// since cancellation in large sums would amplify rounding errors.
T means(const T& x) {
  return x.mean(at::IntArrayRef{0, 1});
}
/// Returns a matrix of shape (6, 6) that depends on x.
T matrix(const T& x) {
  return means(x).unsqueeze(0) + torch::eye(6, x.options());
}

std::vector<ExportCase> products() {
  OperatorTable with(floats());
  with("matmul", [](T x) { return x.matmul(x.mT()); });
  with("matmul_vector", [](T x) { return x.matmul(means(x)); });
  with("matmul_vectors", [](T x) { return means(x).matmul(means(x)); });
  with("matmul_broadcast", [](T x) { return x.unsqueeze(1).matmul(matrix(x)); });
  with("mm", [](T x) { return rows(x).mm(matrix(x)); });
  with("bmm", [](T x) { return x.bmm(x.mT()); });
  with("mv", [](T x) { return rows(x).mv(means(x)); });
  with("dot", [](T x) { return means(x).dot(means(x)); });
  with("inner", [](T x) { return torch::inner(x, means(x)); });
  with("inner_matrices", [](T x) { return torch::inner(x, matrix(x)); });
  with("outer", [](T x) { return torch::outer(means(x), x.flatten()); });
  with("addmm", [](T x) { return torch::addmm(means(x), rows(x), matrix(x)); });
  with("addmm_scaled", [](T x) { return torch::addmm(means(x), rows(x), matrix(x), 0.5, 2); });
  with("addmm_beta_0",
       [](T x) { return torch::addmm(means(x) / 0, rows(x), matrix(x), /*beta=*/0); });
  with("addmv", [](T x) { return torch::addmv(x.sum(-1).flatten(), rows(x), means(x), 2, 0.5); });
  with("baddbmm", [](T x) { return torch::baddbmm(x.bmm(x.mT()), x, x.mT(), 1, 0.5); });
  with("einsum", [](T x) { return torch::einsum("bif,bjf->bij", {x, x}); });
  with("einsum_three_operands", [](T x) {
    return torch::einsum("bif, fg, bjg -> bij", {x, matrix(x), x});
  });
  with("tensordot", [](T x) { return torch::tensordot(x, matrix(x), {2}, {0}); });
  with("tensordot_of_two", [](T x) {
    return torch::tensordot(x, x.transpose(0, 2), {0, -1}, {2, 0});
  });
  with("tensordot_outer", [](T x) { return torch::tensordot(means(x), x, {}, {}); });
  with("bilinear", [](T x) {
    const auto weight = torch::stack({matrix(x), matrix(x).mT(), matrix(x) * 2});
    return torch::bilinear(x, x.flip({-1}), weight, means(x).slice(0, 0, 3));
  });
  with("bilinear_without_bias", [](T x) {
    return torch::bilinear(rows(x), rows(x).slice(1, 0, 2), matrix(x).view({3, 6, 2}));
  });
  with("det", [](T x) { return torch::det(x.mT().bmm(x) / 6 + torch::eye(6)); });
  with("linalg_det", [](T x) { return torch::linalg_det(matrix(x)); });
  with("linear", [](T x) { return torch::linear(x, matrix(x)); });
  with("linear_with_bias", [](T x) { return torch::linear(x, matrix(x), means(x)); });
  with("linear_2d", [](T x) { return torch::linear(rows(x), matrix(x), means(x)); });
  with("linear_vector_weight", [](T x) { return torch::linear(x, means(x)); });
  with("distances", [](T x) { return (x.unsqueeze(1) - x.unsqueeze(2)).pow(2).sum(-1).sqrt(); });
  return with.take();
}

void add_distances(OperatorTable& with) {
  static constexpr auto other = [](const T& x) { return torch::cat({x.flip({-1}), x * 0.5}, 1); };
  with("cdist", [](T x) { return torch::cdist(x, other(x)); });
  with("cdist_1", [](T x) { return torch::cdist(x, other(x), 1); });
  with("cdist_3", [](T x) { return torch::cdist(x, other(x), 3); });
  with("cdist_inf", [](T x) { return torch::cdist(x, other(x), INFINITY); });
  with("cdist_of_rows", [](T x) { return torch::cdist(rows(x), matrix(x)); });
  with("cdist_broadcast", [](T x) { return torch::cdist(x.unsqueeze(1), other(x).unsqueeze(0)); });
  with("pairwise_distance", [](T x) { return torch::pairwise_distance(x, x.flip({-1})); });
  with("pairwise_distance_1",
       [](T x) { return torch::pairwise_distance(x, means(x), 1, 1e-3, /*keepdim=*/true); });
}

std::vector<ExportCase> distances() {
  OperatorTable with(floats());
  add_distances(with);
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  add_distances(in_float64);
  return joined({with.take(), in_float64.take()});
}

std::vector<ExportCase> products_in_float64() {
  OperatorTable with(floats(), "_in_float64", torch::kDouble);
  with("tensordot", [](T x) { return torch::tensordot(x, matrix(x), {2}, {0}); });
  with("bilinear", [](T x) {
    return torch::bilinear(x, x.flip({-1}), torch::stack({matrix(x), matrix(x).mT()}));
  });
  with("matmul", [](T x) { return x.matmul(x.mT()); });
  with("addmm", [](T x) { return torch::addmm(means(x), rows(x), matrix(x), 0.5, 2); });
  with("einsum", [](T x) { return torch::einsum("bif,bjf->bij", {x, x}); });
  with("linear_2d", [](T x) { return torch::linear(rows(x), matrix(x), means(x)); });
  return with.take();
}

/// Attention with query, key and value computed from x.
std::vector<ExportCase> attention() {
  OperatorTable with(floats());
  static constexpr auto heads = [](const T& x) { return x.unflatten(-1, {2, 3}).transpose(1, 2); };
  static constexpr auto scores = [](const T& x) { return x.bmm(x.mT()); };
  with("attention_of_dynamic_width", [](T x) {
    const auto across = x.transpose(1, 2);
    return torch::scaled_dot_product_attention(across, across, across);
  });
  with("grouped_attention_of_dynamic_heads", [](T x) {
    const auto keys = x.unsqueeze(2);  // (B, L, 1, 6): each position is a head
    const auto queries = torch::cat({keys, keys + 1}, 1);
    return torch::scaled_dot_product_attention(queries, keys, keys, {}, 0, false, {}, true);
  });
  with("attention", [](T x) { return torch::scaled_dot_product_attention(x, x, x); });
  with("attention_of_heads",
       [](T x) { return torch::scaled_dot_product_attention(heads(x), heads(x), heads(x)); });
  with("attention_causal", [](T x) {
    return torch::scaled_dot_product_attention(heads(x), heads(x), heads(x), {}, 0, true);
  });
  with("attention_bool_mask",
       [](T x) { return torch::scaled_dot_product_attention(x, x, x, scores(x) > 0); });
  with("attention_float_mask", [](T x) {
    return torch::scaled_dot_product_attention(x, x, x, (scores(x) > 0).to(x.dtype()).log());
  });
  with("attention_fully_masked",
       [](T x) { return torch::scaled_dot_product_attention(x, x, x, scores(x) > 1e9); });
  with("attention_of_heads_fully_masked", [](T x) {
    const auto mask = (scores(x) > 1e9).logical_or(x.sum(-1, true) > 0).unsqueeze(1);
    return torch::scaled_dot_product_attention(heads(x), heads(x), heads(x), mask);
  });
  with("attention_scaled",
       [](T x) { return torch::scaled_dot_product_attention(x, x, x, {}, 0, false, 0.3); });
  with("attention_grouped", [](T x) {
    const auto shared = heads(x).select(1, 0).unsqueeze(1);
    return torch::scaled_dot_product_attention(heads(x), shared, shared, {}, 0, false, {}, true);
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> product_operators() {
  return joined({products(), distances(), products_in_float64(), attention()});
}

}  // namespace attend
