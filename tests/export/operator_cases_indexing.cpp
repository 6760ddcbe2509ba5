#include "export/operator_case.h"

#include <torch/nn/functional.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;
using T = torch::Tensor;
using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

T indices_of(std::vector<int64_t> values) {
  return torch::tensor(values, torch::kLong);
}

/// Returns the permutation that sorts each row.
T order(const T& x) {
  return x.argsort(int64_t{-1});
}

std::vector<ExportCase> ordered() {
  OperatorTable with(floats());
  with("topk", [](T x) { return x.topk(3, -1); });
  with("topk_smallest", [](T x) { return x.topk(2, -1, /*largest=*/false); });
  with("sort", [](T x) { return x.sort(int64_t{-1}); });
  with("sort_length", [](T x) { return x.sort(int64_t{1}, /*descending=*/true); });
  with("sort_stable", [](T x) { return x.sort(std::optional<bool>(true), -1, true); });
  with("argsort", [](T x) { return x.argsort(int64_t{-1}, /*descending=*/true); });
  with("argsort_stable", [](T x) { return x.argsort(/*stable=*/true, int64_t{-1}, false); });
  with("bucketize", [](T x) { return torch::bucketize(x, torch::tensor({-1.0, 0.0, 1.0})); });
  with("bucketize_right", [](T x) {
    return torch::bucketize((x * 2).round(), torch::tensor({-1.0, 0.0, 1.0}), false, true);
  });
  with("one_hot", [](T x) { return F::one_hot(x.argmax(-1), 6); });
  with("nonzero", [](T x) { return (x > 0).nonzero(); });
  with("masked_select", [](T x) { return x.masked_select(x > 0); });
  with("masked_select_rows", [](T x) { return x.masked_select(x.sum(-1, true) > 0); });
  return with.take();
}

std::vector<ExportCase> gathered() {
  OperatorTable with(floats());
  with("index_select", [](T x) { return x.index_select(-1, indices_of({0, 2, 0})); });
  with("gather", [](T x) { return x.gather(-1, order(x)); });
  with("gather_smaller_index",
       [](T x) { return x.gather(-1, order(x).slice(-1, 0, 2).slice(1, 0, 1)); });
  with("take_along_dim", [](T x) { return torch::take_along_dim(x, x.argmax(-1, true), -1); });
  with("take_along_dim_broadcast", [](T x) {
    return torch::take_along_dim(x, indices_of({4, 0}).view({1, 1, 2}), -1);
  });
  with("take_along_flattened", [](T x) { return torch::take_along_dim(x, indices_of({4, 0, 4})); });
  with("embedding", [](T x) {
    return torch::embedding(x.sum(at::IntArrayRef{0, 1}).view({3, 2}), indices_of({2, 0}));
  });
  with("index", [](T x) { return x.index({indices_of({0, 0})}); });
  with("index_length", [](T x) { return x.index({Slice(), indices_of({0, 0})}); });
  with("index_matrix", [](T x) {
    return x.index({Slice(), Slice(), indices_of({0, 1, 2, 5}).view({2, 2})});
  });
  with("index_pair", [](T x) {
    return x.index({Slice(), indices_of({0, 0}), indices_of({1, 4})});
  });
  with("index_pair_not_adjacent", [](T x) {
    return x.index({indices_of({0, 0}), Slice(), indices_of({1, 4})});
  });
  with("index_pair_broadcast", [](T x) {
    return x.index({Slice(), indices_of({0}), indices_of({1, 4})});
  });
  with("index_mask", [](T x) { return x.index({x > 0}); });
  with("index_mask_of_rows", [](T x) { return x.index({x.sum(-1) > 0}); });
  with("index_ellipsis", [](T x) { return x.index({Ellipsis, 3}); });
  with("index_none", [](T x) { return x.index({Slice(), None, 0}); });
  return with.take();
}

std::vector<ExportCase> scattered() {
  OperatorTable with(floats());
  with("scatter", [](T x) { return torch::zeros_like(x).scatter(-1, order(x), x); });
  with("scatter_smaller_index",
       [](T x) { return torch::zeros_like(x).scatter(-1, order(x).slice(-1, 0, 3), x); });
  with("scatter_scalar", [](T x) { return x.scatter(-1, x.argmax(-1, true), 1.5); });
  with("scatter_reduce_add", [](T x) { return x.scatter(-1, order(x) % 3, x, "add"); });
  with("scatter_reduce_multiply", [](T x) { return x.scatter(-1, order(x) % 3, x, "multiply"); });
  with("scatter_reduce_add_scalar",
       [](T x) { return x.scatter(-1, x.argmax(-1, true), 2.0, "add"); });
  with("scatter_add", [](T x) { return torch::zeros_like(x).scatter_add(-1, order(x) % 3, x); });
  with("index_add", [](T x) { return x.index_add(-1, indices_of({0, 0, 3}), x.slice(-1, 0, 3)); });
  with("index_add_times_alpha", [](T x) {
    return x.index_add(-1, indices_of({0, 0, 3}), x.slice(-1, 0, 3), 2);
  });
  with("index_copy", [](T x) { return x.index_copy(-1, indices_of({1, 3}), x.slice(-1, 0, 2)); });
  with("index_fill", [](T x) { return x.index_fill(-1, indices_of({1, 3}), 7); });
  with("index_fill_tensor", [](T x) {
    return x.index_fill(-1, indices_of({1, 3}), torch::tensor(7.0));
  });
  with("select_scatter", [](T x) { return x.select_scatter(x.select(1, 0) + 1, 1, -1); });
  with("slice_scatter", [](T x) { return x.slice_scatter(x.slice(-1, 0, 3) + 1, -1, 0, 6, 2); });
  with("slice_scatter_length", [](T x) { return x.slice_scatter(x.slice(1, 1) + 1, 1, 1); });
  return with.take();
}

std::vector<ExportCase> put() {
  OperatorTable with(floats());
  static constexpr auto put = [](const T& x, const c10::List<std::optional<T>>& at, const T& values,
                                 bool accumulate = false) {
    return torch::index_put(x, at, values, accumulate);
  };
  using At = c10::List<std::optional<T>>;
  with("index_put", [](T x) { return put(x, At({indices_of({0})}), torch::ones({6})); });
  with("index_put_mask", [](T x) { return put(x, At({x > 0}), torch::tensor(2.0)); });
  with("index_put_pair", [](T x) {
    return put(x, At({std::nullopt, indices_of({0, 0}), indices_of({1, 4})}),
               torch::tensor({1.0, 2.0}));
  });
  with("index_put_pair_not_adjacent", [](T x) {
    return put(x, At({indices_of({0, 0}), std::nullopt, indices_of({1, 4})}), torch::tensor(2.0));
  });
  with("index_put_accumulate", [](T x) {
    return put(x, At({std::nullopt, indices_of({0, 0}), indices_of({1, 1})}),
               torch::tensor({1.0, 2.0}), true);
  });
  return with.take();
}

}  // namespace

std::vector<ExportCase> indexing_operators() {
  return joined({ordered(), gathered(), scattered(), put()});
}

}  // namespace attend
