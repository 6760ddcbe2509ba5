#include "explain/explanation.h"

#include "attend/input_error.h"
#include "nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace attend::app {
namespace {

std::string text_of(double number, int decimals) {
  return fmt::format("{:.{}f}", number, decimals);
}

double at(const torch::Tensor& matrix, int64_t row, int64_t column) {
  return matrix[row][column].item<double>();
}

/// Returns a sum with at most four terms: "a + b + ... + c".
std::string sum_text(const std::vector<std::string>& terms) {
  constexpr std::size_t kShown = 4;
  if (terms.size() <= kShown) return fmt::format("{}", fmt::join(terms, " + "));
  return fmt::format("{} + ... + {}", fmt::join(terms.begin(), terms.begin() + kShown - 1, " + "),
                     terms.back());
}

/// Returns the sum of products in which `a` and `b` (N) are multiplied element by element.
std::string products_text(const torch::Tensor& a, const torch::Tensor& b, int decimals) {
  std::vector<std::string> terms;
  for (int64_t i = 0; i < a.size(0); ++i) {
    terms.push_back(fmt::format("{} * {}", text_of(a[i].item<double>(), decimals),
                                text_of(b[i].item<double>(), decimals)));
  }
  return sum_text(terms);
}

/// Adds the steps of one attention.
class Steps {
 public:
  Steps(const AttentionExample& example, int64_t row, Explanation& explanation)
      : example_(example), row_(row), explanation_(explanation) {}

  torch::Tensor add() {
    const auto& x = example_.inputs;
    if (x.defined()) {
      add_step({.title = "Token vectors",
                .formula = "X",
                .words = fmt::format("Each of the {} tokens is a vector of {} numbers, a row of X.",
                                     x.size(0), x.size(1)),
                .matrices = {by_token("X", x, "x")}});
    }
    const auto queries =
        project("Q", "query", "what a token looks for", example_.query, example_.queries, "q");
    const auto keys =
        project("K", "key", "what a token offers to others", example_.key, example_.keys, "k");
    const auto values = project("V", "value", "what a token passes on when others attend to it",
                                example_.value, example_.values, "v");
    auto scores = add_scores(queries, keys);
    if (example_.divisor) scores = add_scaling(scores);
    if (example_.soft_cap > 0) scores = add_soft_cap(scores);
    if (example_.bias.defined()) scores = add_bias(scores);
    if (example_.allowed.defined() && !example_.allowed.all().item<bool>())
      scores = add_mask(scores);
    const auto weights = add_softmax(scores);
    return add_output(weights, values);
  }

 private:
  void add_step(ExplanationStep step) {
    if (!example_.prefix.empty()) step.title = example_.prefix + ": " + step.title;
    explanation_.steps.push_back(std::move(step));
  }

  const std::string& token() const { return example_.tokens[static_cast<std::size_t>(row_)]; }
  const std::string& token(int64_t row) const {
    return example_.tokens[static_cast<std::size_t>(row)];
  }
  std::string text(double number) const { return text_of(number, explanation_.decimals); }

  LabelledMatrix by_token(const std::string& name, const torch::Tensor& values,
                          const std::string& column) const {
    return {.name = name,
            .values = values,
            .rows = example_.tokens,
            .columns = numbered(column, values.size(1)),
            .by_token = true};
  }
  /// Shows the column of the largest number of the row that is followed.
  LabelledMatrix between_tokens(const std::string& name, const torch::Tensor& values) const {
    return {.name = name,
            .values = values,
            .rows = example_.tokens,
            .columns = example_.tokens,
            .column = token(values[row_].argmax().item<int64_t>()),
            .by_token = true,
            .between_tokens = true};
  }

  torch::Tensor project(const std::string& symbol, const std::string& role,
                        const std::string& meaning, const std::optional<Projection>& projection,
                        const torch::Tensor& given, const std::string& column) {
    const auto& x = example_.inputs;
    if (given.defined()) {
      add_step(
          {.title = fmt::format("The {} of each token", role),
           .formula = symbol,
           .words = fmt::format("A row of {} is the {} of a token: {}.", symbol, role, meaning),
           .matrices = {by_token(symbol, given, column)}});
      return given;
    }
    if (!projection) return x;
    const auto& weight = projection->weight;
    const auto& bias = projection->bias;
    const auto result = bias.defined() ? x.mm(weight) + bias : x.mm(weight);
    std::vector<LabelledMatrix> matrices{
        {"W_" + symbol, weight, numbered("x", weight.size(0)), numbered(column, weight.size(1))}};
    if (bias.defined()) {
      matrices.push_back(
          {"b_" + symbol, bias.unsqueeze(0), {"b"}, numbered(column, weight.size(1))});
    }
    matrices.push_back(by_token(symbol, result, column));
    add_step(
        {.title = fmt::format("The {} of each token", role),
         .formula = fmt::format("{0} = X W_{0}{1}", symbol,
                                bias.defined() ? fmt::format(" + b_{}", symbol) : ""),
         .words = fmt::format("The matrix W_{} is learned. It turns the vector of a token into "
                              "its {}: {}.",
                              symbol, role, meaning),
         .matrices = std::move(matrices),
         .worked = fmt::format("{}[{}, {}1] = {}{} = {}", symbol, token(), column,
                               products_text(x[row_], weight.select(1, 0), explanation_.decimals),
                               bias.defined() ? " + " + text(bias[0].item<double>()) : "",
                               text(at(result, row_, 0)))});
    return result;
  }

  torch::Tensor add_scores(const torch::Tensor& queries, const torch::Tensor& keys) {
    const bool same = queries.is_same(keys);
    const auto* formula = same ? "S = X X^T" : "S = Q K^T";
    const auto scores = queries.mm(keys.t());
    const auto best = scores[row_].argmax().item<int64_t>();
    add_step({.title = "Scores",
              .formula = formula,
              .words = same ? "Each vector is compared with each vector by their dot product."
                            : "Each query is compared with each key by their dot product. A row "
                              "belongs to a query, a column to a key.",
              .matrices = {between_tokens("S", scores)},
              .worked = fmt::format("S[{}, {}] = {} = {}", token(), token(best),
                                    products_text(queries[row_], keys[best], explanation_.decimals),
                                    text(at(scores, row_, best))),
              .conclusion = fmt::format("The larger a score, the better the key fits the query. "
                                        "'{}' fits '{}' best.",
                                        token(best), token())});
    return scores;
  }

  torch::Tensor add_scaling(const torch::Tensor& scores) {
    const double divisor = *example_.divisor;
    const auto scaled = scores / divisor;
    add_step(
        {.title = "Scaled scores",
         .formula = fmt::format("S / {}", example_.divisor_text),
         .words = "A dot product of longer vectors is larger. The scores are divided, so that "
                  "they keep the same size and the softmax does not saturate.",
         .matrices = {between_tokens("S", scaled)},
         .worked = fmt::format("S[{}, {}] = {} / {} = {}", token(), token(0),
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
              .words = "The scores are limited to a range, smoothly.",
              .matrices = {between_tokens("S", capped)}});
    return capped;
  }

  torch::Tensor add_bias(const torch::Tensor& scores) {
    const auto biased = scores + example_.bias;
    add_step({.title = "Position bias",
              .formula = "S + bias",
              .words = "The bias depends on the distance of two tokens. The scores themselves do "
                       "not contain the order of the tokens.",
              .matrices = {between_tokens("bias", example_.bias), between_tokens("S", biased)}});
    return biased;
  }

  torch::Tensor add_mask(const torch::Tensor& scores) {
    const auto& allowed = example_.allowed;
    const auto masked = scores.masked_fill(allowed.logical_not(), -INFINITY);
    const bool causal = allowed.equal(torch::ones_like(allowed).tril());
    add_step({.title = causal ? "Causal mask" : "Mask",
              .formula = causal ? "S[i, j] = -inf for j > i" : "S[i, j] = -inf where masked",
              .words = causal ? "A token may not attend to later tokens. Their scores become -inf, "
                                "and exp(-inf) = 0."
                              : "A token may not attend to masked tokens. Their scores become "
                                "-inf, and exp(-inf) = 0.",
              .matrices = {between_tokens("S", masked)},
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
         .words =
             sink ? "The softmax turns the scores of a row into positive weights. The attention "
                    "sink of the head takes a part of the sum 1."
                  : "The softmax turns the scores of a row into positive weights with the sum 1.",
         .matrices = {between_tokens("A", weights)},
         .worked = sink ? "" : softmax_text(scores[row_], best, at(weights, row_, best)),
         .conclusion = fmt::format("'{}' attends most to '{}', with {:.0f}% of its weight.",
                                   token(), token(best), at(weights, row_, best) * 100)});
    return weights;
  }

  /// Returns how `weight`, the weight number `best` of a row of scores (T), is computed.
  std::string softmax_text(const torch::Tensor& row, int64_t best, double weight) const {
    constexpr double kLarge = 20.0;  // exp of larger numbers has too many digits
    const auto scores = row.to(torch::kDouble);
    const double largest = scores.max().item<double>();
    const double shift = std::abs(largest) > kLarge ? largest : 0.0;
    const auto powers = (scores - shift).exp();
    std::vector<std::string> terms;
    for (int64_t i = 0; i < powers.size(0); ++i) {
      if (std::isfinite(scores[i].item<double>())) terms.push_back(text(powers[i].item<double>()));
    }
    const auto exponent =
        shift == 0.0 ? text(scores[best].item<double>())
                     : fmt::format("{} - {}", text(scores[best].item<double>()), text(shift));
    return fmt::format("A[{}, {}] = exp({}) / ({}) = {} / {} = {}{}", token(), token(best),
                       exponent, sum_text(terms), text(powers[best].item<double>()),
                       text(powers.sum().item<double>()), text(weight),
                       shift == 0.0 ? ""
                                    : " (the largest score is subtracted from all scores, which "
                                      "does not change the weights)");
  }

  torch::Tensor add_output(const torch::Tensor& weights, const torch::Tensor& values) {
    const bool same = values.is_same(example_.inputs);
    const auto output = weights.mm(values);
    add_step({.title = "Output",
              .formula = same ? "Y = A X" : "Y = A V",
              .words = fmt::format("The output of a token is the sum of the {} of all tokens, "
                                   "multiplied by its attention weights.",
                                   same ? "vectors" : "values"),
              .matrices = {by_token("Y", output, "y")},
              .worked = fmt::format(
                  "Y[{}, y1] = {} = {}", token(),
                  products_text(weights[row_], values.select(1, 0), explanation_.decimals),
                  text(at(output, row_, 0))),
              .conclusion = fmt::format("The vector of '{}' now also contains what the tokens to "
                                        "which it attends pass on.",
                                        token())});
    return output;
  }

  const AttentionExample& example_;
  int64_t row_;
  Explanation& explanation_;
};

}  // namespace

std::vector<std::string> numbered(const std::string& prefix, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 1; i <= count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

void check_range(const char* flag, int64_t number, int64_t count) {
  if (number >= 1 && number <= count) return;
  throw InputError(fmt::format("{} {}: expected a number from 1 to {}", flag, number, count));
}

int64_t row_of(const char* flag, const std::vector<std::string>& labels, const std::string& token) {
  const auto count = static_cast<int64_t>(labels.size());
  const auto found = std::find(labels.begin(), labels.end(), token);
  if (found != labels.end()) return found - labels.begin();
  const bool is_number =
      !token.empty() && token.size() < 10 && token.find_first_not_of("0123456789") == token.npos;
  if (is_number) {
    check_range(flag, std::stoll(token), count);
    return std::stoll(token) - 1;
  }
  throw InputError(fmt::format("{} {}: expected one of {}, or a number from 1 to {}{}", flag, token,
                               fmt::join(labels, " "), count, did_you_mean(token, labels)));
}

torch::Tensor add_attention_steps(const AttentionExample& example, int64_t row,
                                  Explanation& explanation) {
  return Steps(example, row, explanation).add();
}

}  // namespace attend::app
