#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// One query's row: fills `weights` (S) and `output` (Dv), which both start as zeros.
void attend_one_query(const double* query, const torch::TensorAccessor<double, 2>& key,
                      const torch::TensorAccessor<double, 2>& value, const double* bias,
                      double scale, double* weights, double* output) {
  double greatest = kMinusInfinity;
  for (int64_t s = 0; s < key.size(0); ++s) {
    double dot = 0.0;
    for (int64_t d = 0; d < key.size(1); ++d) dot += query[d] * key[s][d];
    weights[s] = dot * scale + bias[s];
    greatest = std::max(greatest, weights[s]);
  }
  double sum = 0.0;
  for (int64_t s = 0; s < key.size(0); ++s) {
    weights[s] = greatest == kMinusInfinity ? 0.0 : std::exp(weights[s] - greatest);
    sum += weights[s];
  }
  for (int64_t s = 0; s < key.size(0) && sum > 0.0; ++s) {
    weights[s] /= sum;
    for (int64_t d = 0; d < value.size(1); ++d) output[d] += weights[s] * value[s][d];
  }
}

torch::Tensor flat_doubles(const torch::Tensor& x) {
  const auto batch = c10::multiply_integers(x.sizes().slice(0, static_cast<size_t>(x.dim()) - 2));
  return x.detach().to(torch::kDouble).reshape({batch, x.size(-2), x.size(-1)}).contiguous();
}

}  // namespace

AttentionOutput attention_in_loops(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const torch::Tensor& bias,
                                   double scale) {
  const auto q = flat_doubles(query);
  const auto k = flat_doubles(key);
  const auto v = flat_doubles(value);
  const auto b = flat_doubles(bias);
  auto weights = torch::zeros({q.size(0), q.size(1), k.size(1)}, torch::kDouble);
  auto output = torch::zeros({q.size(0), q.size(1), v.size(2)}, torch::kDouble);
  for (int64_t n = 0; n < q.size(0); ++n) {
    const auto keys = k[n];
    const auto values = v[n];
    for (int64_t t = 0; t < q.size(1); ++t) {
      attend_one_query(q[n][t].data_ptr<double>(), keys.accessor<double, 2>(),
                       values.accessor<double, 2>(), b[n][t].data_ptr<double>(), scale,
                       weights[n][t].data_ptr<double>(), output[n][t].data_ptr<double>());
    }
  }
  auto output_shape = query.sizes().vec();
  output_shape.back() = value.size(-1);
  return {output.reshape(output_shape), weights.reshape(bias.sizes())};
}

torch::Tensor bias_of(const AttentionArgs& args, at::IntArrayRef scores_shape) {
  auto bias = torch::zeros(scores_shape, torch::kDouble);
  if (args.mask.defined()) {
    bias = args.mask.scalar_type() == torch::kBool
               ? bias.masked_fill(args.mask.logical_not(), kMinusInfinity)
               : bias + args.mask.detach();
  }
  if (!args.causal) return bias.contiguous();
  const int64_t queries = bias.size(-2);
  const int64_t keys = bias.size(-1);
  for (int64_t t = 0; t < queries; ++t) {
    for (int64_t s = 0; s < keys; ++s) {
      // The last query stands at the last key.
      if (s - (keys - 1) > t - (queries - 1)) {
        bias.select(-2, t).select(-1, s).fill_(kMinusInfinity);
      }
    }
  }
  return bias;
}

}  // namespace attend
