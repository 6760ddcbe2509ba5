#include "support/reference.h"

#include "support/close.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace attend {
namespace {

/// Returns `x` (..., N, D) in float64, with all leading dimensions merged: (leading, N, D).
torch::Tensor flat_doubles(const torch::Tensor& x) {
  const auto batch = c10::multiply_integers(x.sizes().slice(0, static_cast<size_t>(x.dim()) - 2));
  return x.detach().to(torch::kDouble).reshape({batch, x.size(-2), x.size(-1)}).contiguous();
}

/// Returns tokens[row][i] for `tokens` of shape (B, N), tokens[0][i] for shape (1, N), and
/// tokens[i] for shape (N).
int64_t entry(const torch::Tensor& tokens, int64_t row, int64_t i) {
  if (tokens.dim() == 1) return tokens[i].item<int64_t>();
  return tokens[tokens.size(0) == 1 ? 0 : row][i].item<int64_t>();
}

/// Returns true if all arguments except `args.mask` allow query t to attend to key s. `row` is the
/// batch index of both. `queries` and `keys` are the numbers of queries and keys.
bool is_visible(const AttentionArgs& args, int64_t row, int64_t t, int64_t queries, int64_t s,
                int64_t keys) {
  if (args.key_mask.defined() && entry(args.key_mask, row, s) == 0) return false;
  if (args.segments.defined()) {
    const auto& key_tokens = args.key_segments.defined() ? args.key_segments : args.segments;
    if (entry(args.segments, row, t) != entry(key_tokens, row, s)) return false;
  }
  int64_t ahead =
      (s - (keys - 1)) - (t - (queries - 1));  // the last query is aligned with the last key
  if (args.positions.defined()) {
    const auto& key_tokens = args.key_positions.defined() ? args.key_positions : args.positions;
    ahead = entry(key_tokens, row, s) - entry(args.positions, row, t);
  }
  if (args.causal && ahead > 0) return false;
  return args.sliding_window == 0 || std::abs(ahead) < args.sliding_window;
}

/// Returns the bias (leading, T, S) that is added to the scores: the mask, and -infinity where
/// `is_visible` returns false.
torch::Tensor biases(const AttentionArgs& args, const std::vector<int64_t>& scores_shape) {
  auto bias = torch::zeros(scores_shape, torch::kDouble);
  if (args.mask.defined()) {
    bias = args.mask.scalar_type() == torch::kBool
               ? bias.masked_fill(args.mask.logical_not(), kMinusInfinity)
               : bias + args.mask.detach();
  }
  bias = flat_doubles(bias);
  if (bias.numel() == 0) return bias;
  const auto rows = scores_shape.size() > 2 ? scores_shape[0] : 1;
  auto bias_at = bias.accessor<double, 3>();
  for (int64_t n = 0; n < bias.size(0); ++n) {
    for (int64_t t = 0; t < bias.size(1); ++t) {
      for (int64_t s = 0; s < bias.size(2); ++s) {
        const auto row = n / (bias.size(0) / rows);
        if (!is_visible(args, row, t, bias.size(1), s, bias.size(2)))
          bias_at[n][t][s] = kMinusInfinity;
      }
    }
  }
  return bias;
}

struct ScoreRule {
  double scale;
  double soft_cap;
  double sink;  ///< -infinity = none
};

double score(const double* query, const double* key, int64_t width, const ScoreRule& rule) {
  double dot = 0.0;
  for (int64_t d = 0; d < width; ++d) dot += query[d] * key[d];
  const double scaled = dot * rule.scale;
  return rule.soft_cap > 0 ? rule.soft_cap * std::tanh(scaled / rule.soft_cap) : scaled;
}

/// Computes attention for one query. Writes the weights to `weights` (S) and the output to `output`
/// (Dv). `output` must be zero before the call.
void attend_one_query(const double* query, const torch::Tensor& key, const torch::Tensor& value,
                      const double* bias, const ScoreRule& rule, double* weights, double* output) {
  const auto* keys = key.data_ptr<double>();
  const auto* values = value.data_ptr<double>();
  double largest = kMinusInfinity;
  for (int64_t s = 0; s < key.size(0); ++s) {
    weights[s] = score(query, keys + s * key.size(1), key.size(1), rule) + bias[s];
    largest = std::max(largest, weights[s]);
  }
  if (largest == kMinusInfinity) {
    std::fill_n(weights, key.size(0), 0.0);
    return;
  }
  double sum = std::exp(rule.sink - largest);
  for (int64_t s = 0; s < key.size(0); ++s) {
    weights[s] = std::exp(weights[s] - largest);
    sum += weights[s];
  }
  for (int64_t s = 0; s < key.size(0); ++s) {
    weights[s] /= sum;
    for (int64_t d = 0; d < value.size(1); ++d)
      output[d] += weights[s] * values[s * value.size(1) + d];
  }
}

}  // namespace

AttentionOutput attention_in_loops(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const AttentionArgs& args,
                                   const ScoreOptions& options) {
  auto scores_shape = query.sizes().vec();
  scores_shape.back() = key.size(-2);
  const auto bias = biases(args, scores_shape);
  const auto q = flat_doubles(query);
  const auto k = flat_doubles(key);
  const auto v = flat_doubles(value);
  auto weights = torch::zeros({q.size(0), q.size(1), k.size(1)}, torch::kDouble);
  auto output = torch::zeros({q.size(0), q.size(1), v.size(2)}, torch::kDouble);
  const int64_t heads = query.dim() > 2 ? query.size(-3) : 1;
  const int64_t groups = query.dim() > 2 ? key.size(-3) : 1;
  const double width = static_cast<double>(query.size(-1));
  ScoreRule rule{options.scale.value_or(1 / std::sqrt(width)), options.soft_cap, kMinusInfinity};
  for (int64_t n = 0; n < q.size(0); ++n) {
    const int64_t head = n % heads;
    const int64_t kv_row = n / heads * groups + head / (heads / groups);
    if (options.sinks.defined()) rule.sink = options.sinks.reshape({-1})[head].item<double>();
    for (int64_t t = 0; t < q.size(1); ++t) {
      attend_one_query(q[n][t].data_ptr<double>(), k[kv_row], v[kv_row],
                       bias[n][t].data_ptr<double>(), rule, weights[n][t].data_ptr<double>(),
                       output[n][t].data_ptr<double>());
    }
  }
  auto output_shape = query.sizes().vec();
  output_shape.back() = value.size(-1);
  return {output.reshape(output_shape), weights.reshape(scores_shape)};
}

}  // namespace attend
