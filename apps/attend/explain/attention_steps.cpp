#include "explain/attention_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace attend::app {
namespace {

double at(const torch::Tensor& matrix, int64_t row, int64_t column) {
  return matrix[row][column].item<double>();
}

/// Adds the steps of one attention.
class AttentionSteps {
 public:
  AttentionSteps(const AttentionInputs& example, int64_t row, Explanation& explanation)
      : example_(example), row_(row), steps_(example.tokens, row, explanation) {}

  void add_inputs() {
    const auto& x = example_.inputs;
    add_step(
        {.title = "Token vectors",
         .formula = "X",
         .description = fmt::format("Each of the {} tokens is a vector of {} numbers, a row of X.",
                                    x.size(0), x.size(1)),
         .matrices = {by_token("X", x, "x", {})}});
  }

  HeadVectors add_projections() {
    const auto queries =
        project("Q", "query", "what a token looks for", example_.query, example_.queries, "q");
    const auto keys =
        project("K", "key", "what a token offers to others", example_.key, example_.keys, "k");
    const auto values = project("V", "value", "what a token passes on when others attend to it",
                                example_.value, example_.values, "v");
    return {queries, keys, values};
  }

  torch::Tensor add_attention(const HeadVectors& vectors) {
    auto scores = add_scores(vectors.queries, vectors.keys);
    if (example_.divisor) scores = add_scaling(scores);
    if (example_.soft_cap > 0) scores = add_soft_cap(scores);
    if (example_.bias.defined()) scores = add_bias(scores);
    if (example_.allowed.defined() && !example_.allowed.all().item<bool>())
      scores = add_mask(scores);
    const auto weights = add_softmax(scores);
    return add_output(weights, vectors.values);
  }

 private:
  void add_step(ExplanationStep step) { steps_.add(std::move(step), example_.prefix); }
  const std::string& token() const { return steps_.token(); }
  const std::vector<std::string>& sources() const {
    return example_.sources.empty() ? example_.tokens : example_.sources;
  }
  const std::string& source(int64_t row) const { return sources()[static_cast<std::size_t>(row)]; }
  std::string text(double number) const { return steps_.text(number); }

  /// Returns a matrix with one row for each query or, if `of_keys`, for each key.
  LabelledMatrix by_token(const std::string& name, const torch::Tensor& values,
                          const std::string& column, Origin origin, bool of_keys = false) const {
    auto matrix = steps_.by_token(name, values, std::move(origin), column);
    if (of_keys && !example_.sources.empty()) {
      matrix.rows = example_.sources;
      matrix.by_token = false;
    }
    return matrix;
  }
  /// Shows the column of the largest number of the row that is followed.
  LabelledMatrix between_tokens(const std::string& name, const torch::Tensor& values,
                                Origin origin) const {
    return {.name = name,
            .values = values,
            .rows = example_.tokens,
            .columns = sources(),
            .column = source(values[row_].argmax().item<int64_t>()),
            .by_token = true,
            .between_tokens = true,
            .origin = std::move(origin)};
  }

  torch::Tensor project(const std::string& symbol, const std::string& role,
                        const std::string& meaning, const std::optional<Projection>& projection,
                        const torch::Tensor& given, const std::string& column) {
    const bool of_keys = symbol != "Q";
    if (given.defined()) {
      add_step({.title = fmt::format("The {} of each token", role),
                .formula = symbol,
                .description =
                    fmt::format("A row of {} is the {} of a token: {}.", symbol, role, meaning),
                .matrices = {by_token(symbol, given, column, {}, of_keys)}});
      return given;
    }
    const bool of_memory = of_keys && example_.memory.defined();
    const auto& x = of_memory ? example_.memory : example_.inputs;
    if (!projection) return x;
    const auto& input = of_memory ? "M" : example_.input;
    const auto row = of_memory ? 0 : row_;
    const auto& [weight, bias] = *projection;
    const auto result = bias.defined() ? x.mm(weight) + bias : x.mm(weight);
    add_step({.title = fmt::format("The {} of each token", role),
              .formula = fmt::format("{0} = {1} W_{0}{2}", symbol, input,
                                     bias.defined() ? fmt::format(" + b_{}", symbol) : ""),
              .description =
                  fmt::format("The matrix W_{} is learned. It turns the vector of a token into "
                              "its {}: {}.",
                              symbol, role, meaning),
              .matrices = linear_matrices(x, *projection, symbol, input == "X" ? "x" : input,
                                          by_token(symbol, result, column, {}, of_keys)),
              .calculation = fmt::format(
                  "{}[{}, {}1] = {} = {}", symbol, of_memory ? source(row) : token(), column,
                  steps_.linear(x[row], *projection), text(at(result, row, 0)))});
    return result;
  }

  torch::Tensor add_scores(const torch::Tensor& queries, const torch::Tensor& keys) {
    const bool same = queries.is_same(keys);
    const auto* formula = same ? "S = X X^T" : "S = Q K^T";
    const auto scores = queries.mm(keys.t());
    const auto best = scores[row_].argmax().item<int64_t>();
    add_step(
        {.title = "Scores",
         .formula = formula,
         .description = same ? "Each vector is compared with each vector by their dot product."
                             : "Each query is compared with each key by their dot product. A row "
                               "belongs to a query, a column to a key.",
         .matrices = {between_tokens("S", scores, {"row_products", {queries, keys}})},
         .calculation =
             fmt::format("S[{}, {}] = {} = {}", token(), source(best),
                         steps_.products(queries[row_], keys[best]), text(at(scores, row_, best))),
         .conclusion =
             same ? fmt::format("The larger a score, the more two vectors point in the same "
                                "direction. For '{}', the largest score is that of '{}'.",
                                token(), source(best))
                  : fmt::format("The larger a score, the better the key fits the query. '{}' fits "
                                "'{}' best.",
                                source(best), token())});
    return scores;
  }

  torch::Tensor add_scaling(const torch::Tensor& scores) {
    const double divisor = *example_.divisor;
    const auto scaled = scores / divisor;
    add_step({.title = "Scaled scores",
              .formula = fmt::format("S / {}", example_.divisor_text),
              .description =
                  "A dot product of longer vectors is larger. The scores are divided, so that "
                  "they keep the same size and the softmax does not saturate.",
              .matrices = {between_tokens("S", scaled, {"divide", {scores}, divisor})},
              .calculation =
                  fmt::format("S[{}, {}] = {} / {} = {}", token(), source(0),
                              text(at(scores, row_, 0)), text(divisor), text(at(scaled, row_, 0))),
              .conclusion = scores.size(0) > 1
                                ? fmt::format("The variance of the scores was {} and is now {}.",
                                              text(scores.var(false).item<double>()),
                                              text(scaled.var(false).item<double>()))
                                : ""});
    return scaled;
  }

  torch::Tensor add_soft_cap(const torch::Tensor& scores) {
    const double cap = example_.soft_cap;
    const auto capped = cap * (scores / cap).tanh();
    add_step({.title = "Soft cap",
              .formula = fmt::format("{0} * tanh(S / {0})", cap),
              .description = "The scores are limited to a range, smoothly.",
              .matrices = {between_tokens("S", capped, {"soft_cap", {scores}, cap})}});
    return capped;
  }

  torch::Tensor add_bias(const torch::Tensor& scores) {
    const auto biased = scores + example_.bias;
    add_step({.title = "Position bias",
              .formula = "S + bias",
              .description =
                  "The bias depends on the distance of two tokens. The scores themselves do "
                  "not contain the order of the tokens.",
              .matrices = {between_tokens("bias", example_.bias, {}),
                           between_tokens("S", biased, {"sum", {scores, example_.bias}})}});
    return biased;
  }

  torch::Tensor add_mask(const torch::Tensor& scores) {
    const auto& allowed = example_.allowed;
    const auto masked = scores.masked_fill(allowed.logical_not(), -INFINITY);
    const bool causal = allowed.equal(torch::ones_like(allowed).tril());
    add_step({.title = causal ? "Causal mask" : "Mask",
              .formula = causal ? "S[i, j] = -inf for j > i" : "S[i, j] = -inf where masked",
              .description =
                  causal ? "A token may not attend to later tokens. Their scores become -inf, "
                           "and exp(-inf) = 0."
                         : "A token may not attend to masked tokens. Their scores become "
                           "-inf, and exp(-inf) = 0.",
              .matrices = {between_tokens("S", masked, {"mask", {scores}})},
              .conclusion = fmt::format("'{}' may attend to {} of {} tokens.", token(),
                                        allowed[row_].sum().item<int64_t>(), allowed.size(1))});
    return masked;
  }

  torch::Tensor add_softmax(const torch::Tensor& scores) {
    const bool sink = example_.weights.defined();
    const auto weights = sink ? example_.weights : scores.softmax(-1);
    const auto best = weights[row_].argmax().item<int64_t>();
    add_step(
        {.title = "Attention weights",
         .formula = "A[i, j] = exp(S[i, j]) / sum over k of exp(S[i, k])",
         .description =
             sink ? "The softmax turns the scores of a row into positive weights. The attention "
                    "sink of the head takes a part of the sum 1."
                  : "The softmax turns the scores of a row into positive weights with the sum 1.",
         .matrices = {between_tokens("A", weights, {"softmax", {scores}})},
         .calculation = sink ? ""
                             : fmt::format("A[{}, {}] = {}", token(), source(best),
                                           steps_.softmax(scores[row_], best)),
         .conclusion = fmt::format("'{}' attends most to '{}', with {:.0f}% of its weight.",
                                   token(), source(best), at(weights, row_, best) * 100)});
    return weights;
  }

  torch::Tensor add_output(const torch::Tensor& weights, const torch::Tensor& values) {
    const bool same = values.is_same(example_.inputs);
    const auto output = weights.mm(values);
    add_step(
        {.title = "Output",
         .formula = same ? "Y = A X" : "Y = A V",
         .description = fmt::format("The output of a token is the sum of the {} of all tokens, "
                                    "multiplied by its attention weights.",
                                    same ? "vectors" : "values"),
         .matrices = {by_token("Y", output, "y", {"linear", {weights, values}})},
         .calculation = fmt::format("Y[{}, y1] = {} = {}", token(),
                                    steps_.products(weights[row_], values.select(1, 0)),
                                    text(at(output, row_, 0))),
         .conclusion = fmt::format("The vector of '{}' now also contains what the tokens to "
                                   "which it attends pass on.",
                                   token())});
    return output;
  }

  const AttentionInputs& example_;
  int64_t row_;
  TokenSteps steps_;
};

}  // namespace

HeadVectors add_projection_steps(const AttentionInputs& example, int64_t row,
                                 Explanation& explanation) {
  return AttentionSteps(example, row, explanation).add_projections();
}

torch::Tensor add_score_steps(const AttentionInputs& example, const HeadVectors& vectors,
                              int64_t row, Explanation& explanation) {
  return AttentionSteps(example, row, explanation).add_attention(vectors);
}

torch::Tensor add_attention_steps(const AttentionInputs& example, int64_t row,
                                  Explanation& explanation) {
  AttentionSteps steps(example, row, explanation);
  if (example.inputs.defined()) steps.add_inputs();
  return steps.add_attention(steps.add_projections());
}

}  // namespace attend::app
