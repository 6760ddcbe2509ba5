#include "ops/attention_checks.h"

#include <ATen/ExpandUtils.h>

#include <cmath>
#include <string>
#include <vector>

namespace attend {
namespace {

/// Returns the sizes of `x` without the last `count` dimensions.
at::IntArrayRef leading(const torch::Tensor& x, int64_t count) {
  return x.sizes().slice(0, static_cast<std::size_t>(x.dim() - count));
}

void check_inputs(const torch::Tensor& query, const torch::Tensor& key,
                  const torch::Tensor& value) {
  TORCH_CHECK_VALUE(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
                    "attention needs (..., length, head_dim), found query ", query.sizes(),
                    ", key ", key.sizes(), " and value ", value.sizes());
  TORCH_CHECK_VALUE(query.size(-1) == key.size(-1), "query width (", query.size(-1),
                    ") must equal key width (", key.size(-1), ")");
  TORCH_CHECK_VALUE(key.size(-2) == value.size(-2), "key length (", key.size(-2),
                    ") must equal value length (", value.size(-2), ")");
  TORCH_CHECK_TYPE(query.is_floating_point() && query.scalar_type() == key.scalar_type() &&
                       key.scalar_type() == value.scalar_type(),
                   "query, key and value must have the same float dtype, found ",
                   query.scalar_type(), ", ", key.scalar_type(), " and ", value.scalar_type());
}

void check_batch_and_heads(const torch::Tensor& query, const torch::Tensor& key,
                           const torch::Tensor& value) {
  const bool same_dimensions = query.dim() == key.dim() && key.dim() == value.dim();
  const int64_t inner = is_grouped(query, key) ? 3 : 2;
  TORCH_CHECK_VALUE(
      same_dimensions && at::are_expandable(leading(query, inner), leading(key, inner)) &&
          at::are_expandable(leading(query, inner), leading(value, inner)) &&
          at::are_expandable(leading(key, 2), leading(value, 2)),
      "query ", query.sizes(), ", key ", key.sizes(), " and value ", value.sizes(),
      " must have the same batch size and number of heads; the number of query heads may be a "
      "multiple of the number of key heads");
}

void check_broadcast(const char* name, const torch::Tensor& x, const torch::Tensor& query,
                     const torch::Tensor& key) {
  const auto shape = scores_shape(query, key);
  TORCH_CHECK_VALUE(at::is_expandable_to(x.sizes(), shape), name, " ", x.sizes(),
                    " must broadcast to the scores ", c10::IntArrayRef(shape));
}

void check_mask(const torch::Tensor& mask, const torch::Tensor& query, const torch::Tensor& key) {
  if (!mask.defined()) return;
  TORCH_CHECK_TYPE(mask.scalar_type() == torch::kBool || mask.is_floating_point(),
                   "mask must be bool (true = may attend) or float (added to the scores), found ",
                   mask.scalar_type());
  check_broadcast("mask", mask, query, key);
  // A mask of three dimensions broadcasts as (H, T, S), but many callers mean (B, T, S).
  TORCH_CHECK_VALUE(
      mask.dim() != 3 || query.dim() <= 3 || mask.size(0) == 1, "mask ", mask.sizes(),
      " is ambiguous for batched input: pass mask.unsqueeze(1) (one mask per sequence) "
      "or mask.unsqueeze(0) (one per head)");
}

/// Checks that `of_queries` has one integer per query, and `of_keys` one integer per key. The
/// integers are segments or positions; `name` is "segments" or "positions". If `of_keys` is
/// undefined, `of_queries` also applies to the keys.
void check_number_per_token(const std::string& name, const torch::Tensor& of_queries,
                            const torch::Tensor& of_keys, const torch::Tensor& query,
                            const torch::Tensor& key) {
  const auto key_name = "key_" + name;
  TORCH_CHECK_VALUE(of_queries.defined() || !of_keys.defined(), key_name, " is set but ", name,
                    " is not: set both");
  const auto check = [](const std::string& tokens_name, const torch::Tensor& tokens,
                        const torch::Tensor& x) {
    check_per_token(tokens_name.c_str(), tokens, x);
    TORCH_CHECK_TYPE(
        !tokens.defined() || at::isIntegralType(tokens.scalar_type(), /*includeBool=*/false),
        tokens_name, " must be integers, found ", tokens.scalar_type());
  };
  check(name, of_queries, query);
  check(key_name, of_keys.defined() ? of_keys : of_queries, key);
}

void check_args(const AttentionArgs& args, const torch::Tensor& query, const torch::Tensor& key) {
  check_mask(args.mask, query, key);
  check_per_token("key_mask", args.key_mask, key);
  TORCH_CHECK_TYPE(!args.key_mask.defined() || args.key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = may be attended to), found ",
                   args.key_mask.scalar_type());
  check_number_per_token("segments", args.segments, args.key_segments, query, key);
  check_number_per_token("positions", args.positions, args.key_positions, query, key);
  TORCH_CHECK_VALUE(args.sliding_window >= 0, "sliding_window (", args.sliding_window,
                    ") must not be negative");
  TORCH_CHECK_VALUE(!args.average_attn_weights || query.dim() >= 3,
                    "average_attn_weights needs a query (..., H, T, D) with heads, found ",
                    query.sizes());
}

void check_options(const ScoreOptions& options, const torch::Tensor& query,
                   const torch::Tensor& key) {
  TORCH_CHECK_VALUE(options.dropout >= 0.0 && options.dropout < 1.0, "dropout (", options.dropout,
                    ") must be in [0, 1)");
  TORCH_CHECK_VALUE(std::isfinite(options.scale.value_or(1.0)), "scale (", *options.scale,
                    ") must be finite");
  TORCH_CHECK_VALUE(options.soft_cap >= 0.0 && std::isfinite(options.soft_cap), "soft_cap (",
                    options.soft_cap, ") must be finite and not negative");
  if (options.bias.defined()) {
    TORCH_CHECK_TYPE(options.bias.is_floating_point(), "bias must be float, found ",
                     options.bias.scalar_type());
    check_broadcast("bias", options.bias, query, key);
  }
  const auto& sinks = options.sinks;
  if (!sinks.defined()) return;
  TORCH_CHECK_VALUE(query.dim() >= 3 && sinks.dim() >= 1 && sinks.size(0) == query.size(-3) &&
                        sinks.numel() == query.size(-3),
                    "sinks ", sinks.sizes(), " must have one entry per head of query ",
                    query.sizes());
  TORCH_CHECK_TYPE(sinks.is_floating_point(), "sinks must be float, found ", sinks.scalar_type());
}

}  // namespace

void check_per_token(const char* name, const torch::Tensor& tokens, const torch::Tensor& x) {
  if (!tokens.defined()) return;
  const bool batched = x.dim() >= 3;
  const auto length = std::to_string(x.size(-2));
  const bool is_row = tokens.dim() == 1;
  const bool is_batch =
      batched && tokens.dim() == 2 && (tokens.size(0) == x.size(0) || tokens.size(0) == 1);
  TORCH_CHECK_VALUE((is_row || is_batch) && tokens.size(-1) == x.size(-2), name, " ",
                    tokens.sizes(), " must be (", length, ")",
                    batched ? " or (" + std::to_string(x.size(0)) + ", " + length + ")" : "",
                    ", one entry per token");
}

std::vector<int64_t> scores_shape(const torch::Tensor& query, const torch::Tensor& key) {
  const bool grouped = is_grouped(query, key);
  const int64_t inner = grouped ? 3 : 2;
  auto shape = at::infer_size(leading(query, inner), leading(key, inner));
  if (grouped) shape.push_back(query.size(-3));
  shape.insert(shape.end(), {query.size(-2), key.size(-2)});
  return shape;  // (..., H, T, S)
}

bool is_grouped(const torch::Tensor& query, const torch::Tensor& key) {
  if (query.dim() < 3 || key.dim() != query.dim()) return false;
  const int64_t heads = query.size(-3);
  const int64_t groups = key.size(-3);
  return groups > 0 && heads > groups && heads % groups == 0;
}

void check_attention(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& value, const AttentionArgs& args,
                     const ScoreOptions& options) {
  check_inputs(query, key, value);
  check_batch_and_heads(query, key, value);
  check_args(args, query, key);
  check_options(options, query, key);
}

}  // namespace attend
