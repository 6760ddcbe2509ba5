#include "explain/head_steps.h"

#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/value_residual.h"

#include <fmt/format.h>

#include <utility>

namespace attend::app {
namespace {

/// Adds the steps of the hooks of one head.
class HookSteps {
 public:
  /// `vectors`: as the projections return them.
  HookSteps(const AttentionInputs& example, HeadVectors vectors, int64_t row,
            Explanation& explanation)
      : example_(example),
        vectors_(std::move(vectors)),
        explanation_(explanation),
        query_steps_(example.tokens, row, explanation),
        key_steps_(example.memory.defined() ? example.sources : example.tokens,
                   example.memory.defined() ? 0 : row, explanation) {}

  const HeadVectors& vectors() const { return vectors_; }

  void add_norms(QKNormImpl& norms) {
    vectors_.queries = add_norm_step(*norms.query.ptr(), {"Q", vectors_.queries}, "Q",
                                     title("query"), query_steps_, "q")
                           .values;
    vectors_.keys =
        add_norm_step(*norms.key.ptr(), {"K", vectors_.keys}, "K", title("key"), key_steps_, "k")
            .values;
    // The tokens of a memory are not those that are followed.
    if (example_.memory.defined()) explanation_.steps.back().matrices.back().by_token = false;
  }

  void add_rotations(const RotaryImpl& rotary) {
    vectors_.queries = rotated(rotary, "Q", vectors_.queries, title("query"), query_steps_, "q");
    vectors_.keys = rotated(rotary, "K", vectors_.keys, title("key"), key_steps_, "k");
  }

  /// `first`: V (S, D) of the first layer.
  void add_value_residual(const ValueResidualImpl& residual, const torch::Tensor& first) {
    const auto& values = vectors_.values;
    const auto mix = row_matrix("m", residual.mix.flatten(), "m");
    const auto result = torch::lerp(values, first, residual.mix);
    key_steps_.add(
        {.title = "Values of the first layer",
         .formula = "V = V + m * (V_1 - V)",
         .description = "The values are mixed with V_1, those of the first layer, which its own "
                        "explanation computes. The factor m is learned.",
         .matrices = {key_steps_.by_token("V_1", first, {}, "v"), mix,
                      key_steps_.by_token("V", result, {"mix", {values, first, mix.values}}, "v")},
         .calculation =
             fmt::format("V[{0}, v1] = {1} + {2} * ({3} - {1}) = {4}", key_steps_.token(),
                         key_steps_.first(values), key_steps_.text(residual.mix.item<double>()),
                         key_steps_.first(first), key_steps_.first(result))},
        title("value"));
    vectors_.values = result;
  }

  void add_smeared_keys(const SmearedKeysImpl& smeared, const HookInputs& inputs) {
    const auto& keys = vectors_.keys;
    const auto length = keys.size(0);
    const double weight = torch::sigmoid(smeared.logits[inputs.kv_head]).item<double>();
    const auto mix = torch::eye(length);  // (S, S)
    for (int64_t i = 1; i < length; ++i) {
      if (inputs.key_mask.defined() && !inputs.key_mask[i - 1].item<bool>()) continue;
      mix[i][i] = 1.0 - weight;
      mix[i][i - 1] = weight;
    }
    const auto result = mix.mm(keys);
    key_steps_.add(
        {.title = "Smeared keys",
         .formula = "K = mix K",
         .description = "Each key is mixed with the key of the token before it, with a "
                        "learned weight. A query can then find a token by the token "
                        "before it.",
         .matrices = {{.name = "mix",
                       .values = mix,
                       .rows = key_steps_.tokens(),
                       .columns = key_steps_.tokens(),
                       .by_token = true,
                       .between_tokens = true},
                      key_steps_.by_token("K", result, {"linear", {mix, keys}}, "k")},
         .calculation = fmt::format("K[{}, k1] = {} = {}", key_steps_.token(),
                                    key_steps_.products(mix[key_steps_.row()], keys.select(1, 0)),
                                    key_steps_.first(result))},
        title("key"));
    vectors_.keys = result;
  }

 private:
  std::string title(const std::string& role) const { return example_.prefix + ", " + role; }

  static torch::Tensor rotated(const RotaryImpl& rotary, const std::string& symbol,
                               const torch::Tensor& x, const std::string& title, TokenSteps& steps,
                               const std::string& column) {
    const auto frequencies =
        torch::tensor(rotary_frequencies(rotary.head_dim, rotary.options), torch::kFloat);
    const auto tables = rotary_tables(torch::arange(x.size(0)), frequencies,
                                      rotary_attention_scaling(rotary.options));  // (T, R/2)
    const bool interleaved = rotary.options.interleaved;
    const auto result = apply_rotary(x, tables, interleaved);
    // A factor for each number of a row, where the first of a pair has -sin.
    const auto factors = [&](const torch::Tensor& first, const torch::Tensor& second, double rest) {
      const auto rotated = interleaved ? torch::stack({first, second}, -1).flatten(-2)
                                       : torch::cat({first, second}, -1);
      return torch::cat({rotated, torch::full({x.size(0), x.size(1) - rotated.size(1)}, rest)}, -1);
    };
    const auto cos = factors(tables.cos, tables.cos, 1.0);
    const auto sin = factors(-tables.sin, tables.sin, 0.0);
    const int64_t distance = interleaved ? 1 : frequencies.size(0);  // of the numbers of a pair
    const auto row = steps.row();
    const auto number = [&](const torch::Tensor& matrix, int64_t index) {
      return steps.text(matrix[row][index].item<double>());
    };
    steps.add(
        {.title = "Rotation",
         .formula = fmt::format("{0}[i, j] = {0}[i, j] * cos[i, j] + {0}[i, pair of j] * sin[i, j]",
                                symbol),
         .description = fmt::format(
             "The numbers {0}1 and {0}{1}, and so on, are pairs. Each pair is turned by an angle "
             "that grows with the position of the token, so that a score depends on the distance "
             "of two tokens.",
             column, 1 + distance),
         .matrices = {steps.by_token("cos", cos, {}, column),
                      steps.by_token("sin", sin, {}, column),
                      steps.by_token(symbol, result,
                                     {.operation = "rotary",
                                      .operands = {x, cos, sin},
                                      .number = static_cast<double>(distance)},
                                     column)},
         .calculation = fmt::format("{}[{}, {}1] = {} * {} + {} * {} = {}", symbol, steps.token(),
                                    column, number(x, 0), number(cos, 0), number(x, distance),
                                    number(sin, 0), steps.first(result))},
        title);
    return result;
  }

  const AttentionInputs& example_;
  HeadVectors vectors_;
  Explanation& explanation_;
  TokenSteps query_steps_;
  TokenSteps key_steps_;
};

}  // namespace

void set_projections(const MultiheadAttention& attention, int64_t head, AttentionInputs& example) {
  const auto& options = attention->options;
  const auto num_heads = options.num_heads();
  const auto num_kv_heads = options.num_kv_heads().value_or(num_heads);
  const auto kv_head = head / (num_heads / num_kv_heads);
  const auto projection = [&](int64_t index) {
    const auto of_head = [&](const torch::Tensor& parameter) {  // ((H + 2 G) D, ...) -> (D, ...)
      return parameter.unflatten(0, {num_heads + 2 * num_kv_heads, -1})[index];
    };
    const auto& bias = attention->qkv->bias;
    return Projection{of_head(attention->qkv->weight).t(), bias.defined() ? of_head(bias) : bias};
  };
  example.query = projection(head);
  example.key = projection(num_heads + kv_head);
  example.value = projection(num_heads + num_kv_heads + kv_head);
}

HeadVectors add_hook_steps(const AttentionInputs& example, const MultiheadAttention& attention,
                           const HookInputs& inputs, HeadVectors vectors, int64_t row,
                           Explanation& explanation) {
  HookSteps steps(example, std::move(vectors), row, explanation);
  for (const auto& child : attention->children()) {
    if (auto* norms = child->as<QKNorm>()) steps.add_norms(*norms);
    if (auto* rotary = child->as<Rotary>()) steps.add_rotations(*rotary);
    if (auto* residual = child->as<ValueResidual>(); residual && inputs.first_values.defined())
      steps.add_value_residual(*residual, inputs.first_values);
  }
  for (const auto& child : attention->children()) {  // before_attention
    if (auto* smeared = child->as<SmearedKeys>()) steps.add_smeared_keys(*smeared, inputs);
  }
  return steps.vectors();
}

torch::Tensor add_gate_step(const OutputGateImpl& gate, int64_t head, const TokenMatrix& x,
                            const torch::Tensor& output, const std::string& title,
                            TokenSteps& steps) {
  const auto weight =
      gate.projection->weight.unflatten(0, {gate.dims.num_heads, -1})[head].t();  // (E, 1 or D)
  const auto logits = x.values.mm(weight);
  const auto factors = torch::sigmoid(logits);
  const auto result = output * factors;
  steps.add(
      {.title = "Gate",
       .formula = fmt::format("Y = Y * sigmoid({} W_G)", x.symbol),
       .description = "The output of the head is multiplied by a factor between 0 and 1, which "
                      "depends on the vector of the token. The matrix W_G is learned.",
       .matrices = {{"W_G", weight, numbered(x.symbol, weight.size(0)),
                     numbered("g", weight.size(1))},
                    steps.by_token("L", logits, {"linear", {x.values, weight}}, "g"),
                    steps.by_token(
                        "G", factors,
                        {.operation = "activation", .operands = {logits}, .name = "sigmoid"}, "g"),
                    steps.by_token("Y", result, {"product", {output, factors}}, "y")},
       .calculation = fmt::format("Y[{}, y1] = {} * sigmoid({}) = {} * {} = {}", steps.token(),
                                  steps.first(output), steps.first(logits), steps.first(output),
                                  steps.first(factors), steps.first(result))},
      title);
  return result;
}

}  // namespace attend::app
