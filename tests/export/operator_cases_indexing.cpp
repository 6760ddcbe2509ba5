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

/// Returns a constant matrix of shape (6, 3) with the dtype of x.
T weights_of(const T& x) {
  return torch::linspace(-1, 1, 18).view({6, 3}).to(x.scalar_type());
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

void add_reduced_scatters(OperatorTable& with) {
  with("scatter_sum", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "sum"); });
  with("scatter_sum_without_self",
       [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "sum", false); });
  with("scatter_prod", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "prod"); });
  with("scatter_prod_without_self",
       [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "prod", false); });
  with("scatter_mean", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "mean"); });
  with("scatter_mean_without_self",
       [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "mean", false); });
  with("scatter_amax", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "amax"); });
  with("scatter_amax_without_self",
       [](T x) { return x.scatter_reduce(-1, order(x) % 4, x - 9, "amax", false); });
  with("scatter_amin", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "amin"); });
  with("scatter_amin_without_self",
       [](T x) { return x.scatter_reduce(-1, order(x) % 4, x + 9, "amin", false); });
  with("scatter_mean_over_length", [](T x) {
    const auto index = order(x.sum(-1, true).transpose(1, 2)).transpose(1, 2) / 2;
    return x.slice(-1, 0, 1).scatter_reduce(1, index.floor().to(torch::kLong), x, "mean", false);
  });
}

std::vector<ExportCase> reduced_scatters() {
  OperatorTable with(floats());
  add_reduced_scatters(with);
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  add_reduced_scatters(in_float64);
  OperatorTable of_integers(integers(), "_of_integers");
  static constexpr auto reduced = [](const T& x, const char* reduce, bool include_self) {
    return x.scatter_reduce(-1, torch::zeros_like(x, torch::kLong), x, reduce, include_self);
  };
  of_integers("scatter_mean", [](T x) { return reduced(x, "mean", true); });
  of_integers("scatter_mean_without_self", [](T x) { return reduced(x, "mean", false); });
  of_integers("scatter_amax_without_self", [](T x) { return reduced(x, "amax", false); });
  of_integers("scatter_amin_without_self_of_32_bits",
              [](T x) { return reduced(x.to(torch::kInt), "amin", false); });
  of_integers("scatter_amin_without_self_of_16_bits",
              [](T x) { return reduced(x.to(torch::kShort), "amin", false); });
  of_integers("scatter_amax_without_self_of_8_bits",
              [](T x) { return reduced(x.to(torch::kChar), "amax", false); });
  of_integers("scatter_amin_without_self_of_bytes",
              [](T x) { return reduced((x + 9).to(torch::kByte), "amin", false); });
  OperatorTable in_float16(floats(), "_in_float16", torch::kHalf);
  in_float16("scatter_sum", [](T x) { return x.scatter_reduce(-1, order(x) % 4, x, "sum"); });
  in_float16("scatter_amax",
             [](T x) { return x.scatter_reduce(-1, order(x) % 4, x - 9, "amax", false); });
  return joined({with.take(), in_float64.take(), of_integers.take(), in_float16.take()});
}

/// Operators whose results have sizes that depend on values.
std::vector<ExportCase> counted() {
  OperatorTable with(floats());
  with("where_indices", [](T x) { return torch::where(x > 0); });
  with("where_indices_of_rows", [](T x) { return torch::where(x.sum(-1)); });
  with("nonzero_numpy", [](T x) { return (x > 0).nonzero_numpy(); });
  with("repeat_interleave_by_constant", [](T x) {
    return x.repeat_interleave(indices_of({2, 0, 1, 3, 0, 1}), -1);
  });
  with("repeat_interleave_by_tensor", [](T x) {
    const auto repeats =
        x.mean(at::IntArrayRef{0, 2}).abs().mul(9).floor().to(torch::kLong);  // (T)
    return x.repeat_interleave(repeats, 1);
  });
  with("repeat_interleave_flattened",
       [](T x) { return x.repeat_interleave((x.flatten() > 0).to(torch::kInt)); });
  with("repeat_interleave_by_one_number",
       [](T x) { return x.repeat_interleave(indices_of({2}), 1); });
  with("repeat_interleave_indices",
       [](T x) { return torch::repeat_interleave((x.flatten() > 0).to(torch::kLong)); });
  OperatorTable of_integers(integers(), "_of_integers");
  of_integers("unique", [](T x) { return std::get<0>(torch::_unique2(x)) * 2; });
  of_integers("unique_with_inverse_and_counts",
              [](T x) { return torch::_unique2(x, true, true, true); });
  of_integers("unique_of_32_bits",
              [](T x) { return torch::_unique2(x.to(torch::kInt), true, true, true); });
  of_integers("unique_rows", [](T x) {
    const auto pairs = torch::stack({x.sign(), x % 2}, -1).flatten(0, 1);
    return torch::unique_dim(pairs, 0, true, true, true);
  });
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  in_float64("unique", [](T x) { return torch::_unique2(x.round(), true, true, true); });
  return joined({with.take(), of_integers.take(), in_float64.take()});
}

/// Bags of rows of a weight (6, 3) that depends on x.
void add_bags(OperatorTable& with) {
  static constexpr auto bags = [](const T& x, const std::vector<int64_t>& offsets, int64_t mode,
                                  bool include_last_offset = false,
                                  std::optional<int64_t> padding_idx = {}) {
    const auto weight = x.mean(at::IntArrayRef{0, 1}).unsqueeze(1) + weights_of(x);
    return std::get<0>(torch::embedding_bag(weight, order(x).flatten(), indices_of(offsets), false,
                                            mode, false, {}, include_last_offset, padding_idx));
  };
  with("bag_sums", [](T x) { return bags(x, {0, 2, 2, 5}, 0); });
  with("bag_means", [](T x) { return bags(x, {0, 2, 2, 5}, 1); });
  with("bag_maxima", [](T x) { return bags(x, {0, 2, 2, 5}, 2); });
  with("bag_means_with_last_offset", [](T x) {
    return bags(x.slice(0, 0, 1).slice(1, 0, 1), {0, 2, 6}, 1, /*include_last_offset=*/true);
  });
  with("bag_sums_without_padding", [](T x) { return bags(x, {0, 1, 3}, 0, false, 2); });
  with("bag_means_without_padding", [](T x) { return bags(x, {0, 1, 3}, 1, false, 2); });
  with("bag_sums_without_last_row", [](T x) { return bags(x, {0, 1, 3}, 0, false, -1); });
  with("bag_maxima_without_padding", [](T x) { return bags(x, {0, 1, 3}, 2, false, 2); });
}

std::vector<ExportCase> bags() {
  OperatorTable with(floats());
  add_bags(with);
  with("bag_weighted_sums", [](T x) {
    return std::get<0>(torch::embedding_bag(weights_of(x), order(x).flatten(), indices_of({0, 4}),
                                            false, 0, false, x.flatten()));
  });
  OperatorTable in_float64(floats(), "_in_float64", torch::kDouble);
  add_bags(in_float64);
  return joined({with.take(), in_float64.take()});
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
  return joined({ordered(), gathered(), scattered(), reduced_scatters(), counted(), bags(), put()});
}

}  // namespace attend
