#include "explain/explanation.h"

#include "attend/input_error.h"
#include "attend/train/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace attend::app {
namespace {

/// Returns a sum with at most four terms: "a + b + ... + c".
std::string sum_text(const std::vector<std::string>& terms) {
  constexpr std::size_t kShown = 4;
  if (terms.size() <= kShown) return fmt::format("{}", fmt::join(terms, " + "));
  return fmt::format("{} + ... + {}", fmt::join(terms.begin(), terms.begin() + kShown - 1, " + "),
                     terms.back());
}

}  // namespace

void TokenSteps::add(ExplanationStep step, const std::string& prefix) {
  if (!prefix.empty()) step.title = prefix + ": " + step.title;
  explanation_.steps.push_back(std::move(step));
}

LabelledMatrix TokenSteps::by_token(const std::string& name, const torch::Tensor& values,
                                    Origin origin, const std::string& prefix) const {
  return {.name = name,
          .values = values,
          .rows = tokens_,
          .columns = numbered(prefix.empty() ? name : prefix, values.size(1)),
          .by_token = true,
          .origin = std::move(origin)};
}

std::string TokenSteps::text(double number) const {
  return fmt::format("{:.{}f}", number, explanation_.decimals);
}

std::string TokenSteps::first(const torch::Tensor& values) const {
  return text(values[row_][0].item<double>());
}

std::string TokenSteps::products(const torch::Tensor& a, const torch::Tensor& b) const {
  std::vector<std::string> terms;
  for (int64_t i = 0; i < a.size(0); ++i) {
    terms.push_back(fmt::format("{} * {}", text(a[i].item<double>()), text(b[i].item<double>())));
  }
  return sum_text(terms);
}

std::string TokenSteps::softmax(const torch::Tensor& logits, int64_t index) const {
  const auto scores = logits.to(torch::kDouble);
  const double shift = softmax_shift(scores);
  const auto powers = (scores - shift).exp();
  std::vector<std::string> terms;
  for (int64_t i = 0; i < powers.size(0); ++i) {
    if (std::isfinite(scores[i].item<double>())) terms.push_back(text(powers[i].item<double>()));
  }
  const auto score = text(scores[index].item<double>());
  const auto power = powers[index].item<double>();
  const auto sum = powers.sum().item<double>();
  return fmt::format("exp({}) / ({}) = {} / {} = {}{}",
                     shift == 0.0 ? score : fmt::format("{} - {}", score, text(shift)),
                     sum_text(terms), text(power), text(sum), text(power / sum),
                     shift == 0.0 ? ""
                                  : " (the largest score is subtracted from all scores, which does "
                                    "not change the result)");
}

std::string TokenSteps::linear(const torch::Tensor& x, const Projection& projection) const {
  const auto& bias = projection.bias;
  return products(x, projection.weight.select(1, 0)) +
         (bias.defined() ? " + " + text(bias[0].item<double>()) : "");
}

std::vector<LabelledMatrix> linear_matrices(const torch::Tensor& x, const Projection& projection,
                                            const std::string& suffix, const std::string& from,
                                            LabelledMatrix result) {
  const auto& [weight, bias] = projection;
  std::vector<LabelledMatrix> matrices{
      {"W_" + suffix, weight, numbered(from, weight.size(0)), result.columns}};
  result.origin = {"linear", {x, weight}};
  if (bias.defined()) {
    matrices.push_back({"b_" + suffix, bias.unsqueeze(0), {"b"}, result.columns});
    result.origin.operands.push_back(matrices.back().values);
  }
  matrices.push_back(std::move(result));
  return matrices;
}

double softmax_shift(const torch::Tensor& logits) {
  constexpr double kLarge = 20.0;
  const auto largest = logits.max().item<double>();
  return std::abs(largest) > kLarge ? largest : 0.0;
}

LabelledMatrix row_matrix(const std::string& name, const torch::Tensor& vector,
                          const std::string& prefix) {
  return {name, vector.unsqueeze(0), {name.substr(0, 1)}, numbered(prefix, vector.size(0))};
}

std::vector<std::string> numbered(const std::string& prefix, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 1; i <= count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

void check_range(const char* flag, int64_t number, int64_t count) {
  if (number >= 1 && number <= count) return;
  throw InputError(fmt::format("{} {}: expected a number from 1 to {}", flag, number, count));
}

std::optional<int64_t> number_in(const std::string& text) {
  const bool is_number =
      !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
  return is_number ? std::optional(std::stoll(text)) : std::nullopt;
}

int64_t row_of(const char* flag, const std::vector<std::string>& labels, const std::string& token) {
  const auto count = static_cast<int64_t>(labels.size());
  const auto found = std::find(labels.begin(), labels.end(), token);
  if (found != labels.end()) return found - labels.begin();
  if (const auto number = number_in(token)) {
    check_range(flag, *number, count);
    return *number - 1;
  }
  throw InputError(fmt::format("{} {}: expected one of {}, or a number from 1 to {}{}", flag, token,
                               fmt::join(labels, " "), count, train::did_you_mean(token, labels)));
}

}  // namespace attend::app
