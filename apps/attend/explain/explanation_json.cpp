#include "explain/explanation_json.h"

#include "report/encoding.h"
#include "report/html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace attend::app {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxListed = 1000;  // cells of a matrix whose numbers are a list

/// Returns the origin of a matrix of the step number `step`. An operand is the last matrix up to
/// this step that has its values.
ordered_json origin_of(const LabelledMatrix& matrix, const Explanation& explanation,
                       std::size_t step) {
  auto operands = ordered_json::array();
  for (const auto& operand : matrix.origin.operands) {
    auto& place = operands.emplace_back(nullptr);
    for (std::size_t i = 0; i <= step; ++i) {
      const auto& matrices = explanation.steps[i].matrices;
      for (std::size_t j = 0; j < matrices.size(); ++j) {
        if (matrices[j].values.is_same(operand)) place = std::vector<std::size_t>{i, j};
      }
    }
  }
  ordered_json json{{"operation", matrix.origin.operation}, {"operands", std::move(operands)}};
  if (matrix.origin.number) json["number"] = *matrix.origin.number;
  if (matrix.origin.shift) json["shift"] = *matrix.origin.shift;
  if (!matrix.origin.name.empty()) json["name"] = matrix.origin.name;
  return json;
}

/// Returns an explanation whose matrices have no numbers: their `values` are null.
ordered_json json_without_numbers(const Explanation& explanation) {
  auto steps = ordered_json::array();
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& step = explanation.steps[i];
    auto matrices = ordered_json::array();
    for (const auto& matrix : step.matrices) {
      ordered_json json{{"name", matrix.name},
                        {"rows", matrix.rows},
                        {"columns", matrix.columns},
                        {"values", nullptr},
                        {"by_token", matrix.by_token},
                        {"between_tokens", matrix.between_tokens},
                        {"comparison", matrix.comparison}};
      if (!matrix.origin.operation.empty()) json["origin"] = origin_of(matrix, explanation, i);
      matrices.push_back(std::move(json));
    }
    steps.push_back({{"title", step.title},
                     {"formula", step.formula},
                     {"description", step.description},
                     {"matrices", std::move(matrices)},
                     {"calculation", step.calculation},
                     {"conclusion", step.conclusion}});
  }
  ordered_json json{{"title", explanation.title},
                    {"token", explanation.token},
                    {"decimals", explanation.decimals}};
  if (explanation.layer > 0) {
    json["layer"] = explanation.layer;
    json["head"] = explanation.head;
  }
  json["steps"] = std::move(steps);
  return json;
}

std::string_view bytes_of(const torch::Tensor& contiguous) {
  return {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

/// Returns the numbers of a matrix: a list of rows or, of a large matrix, base64.
ordered_json packed_numbers(const torch::Tensor& matrix) {
  if (matrix.numel() <= kMaxListed) return json_rows(matrix);
  return to_base64(bytes_of(matrix.to(torch::kFloat).contiguous()));
}

/// Returns the size in a page, with the comma that follows.
std::size_t size_of(const ordered_json& json) {
  return script_text(json).size() + 1;
}

}  // namespace

ordered_json json_rows(const torch::Tensor& matrix) {
  const auto values = matrix.to(torch::kCPU, torch::kDouble).contiguous();
  auto rows = ordered_json::array();
  for (int64_t i = 0; i < values.size(0); ++i) {
    const auto* begin = values.const_data_ptr<double>() + i * values.size(1);
    std::vector<double> row(begin, begin + values.size(1));
    if (matrix.scalar_type() == torch::kFloat) {
      for (auto& number : row) number = std::stod(fmt::format("{}", static_cast<float>(number)));
    }
    rows.push_back(row);
  }
  return rows;
}

ordered_json to_json(const Explanation& explanation) {
  auto json = json_without_numbers(explanation);
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& matrices = explanation.steps[i].matrices;
    for (std::size_t j = 0; j < matrices.size(); ++j)
      json["steps"][i]["matrices"][j]["values"] = json_rows(matrices[j].values);
  }
  return json;
}

bool PackedExplanations::add(const Explanation& explanation) {
  const bool is_first = explanations_.empty();
  auto json = json_without_numbers(explanation);
  if (!is_first && bytes_ + size_of(json) > max_bytes_) return false;
  std::vector<Numbers> numbers;
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& matrices = explanation.steps[i].matrices;
    for (std::size_t j = 0; j < matrices.size(); ++j) {
      auto& matrix = json["steps"][i]["matrices"][j];
      matrix["rows"] = place_of(matrices[j].rows);
      matrix["columns"] = place_of(matrices[j].columns);
      const bool waits =
          !is_first && !matrices[j].by_token && matrices[j].values.numel() > kMaxListed;
      (waits ? large_weights_ : numbers).push_back({size(), i, j, matrices[j].values});
    }
  }
  bytes_ += size_of(json);
  explanations_.push_back(std::move(json));
  add_numbers(std::move(numbers));
  return has_room_;
}

void PackedExplanations::add_numbers(std::vector<Numbers> all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.values.numel() < b.values.numel();
  });
  for (const auto& [explanation, step, index, values] : all) {
    const auto numbers = values.contiguous();
    const auto [place, is_new] =
        number_places_.emplace(std::tuple(values.size(0), values.size(1),
                                          std::hash<std::string_view>()(bytes_of(numbers))),
                               nullptr);
    if (is_new) {
      auto json = packed_numbers(numbers);
      const auto size = size_of(json);
      if (bytes_ + size <= max_bytes_) {
        place->second = numbers_.size();
        numbers_.push_back(std::move(json));
        bytes_ += size;
      }
    }
    auto& matrix = explanations_[explanation]["steps"][step]["matrices"][index];
    matrix["values"] = place->second;
    if (!place->second.is_null()) continue;
    left_out_.insert(matrix["name"].get<std::string>());
    if (matrix["by_token"].get<bool>()) has_room_ = false;
  }
}

std::size_t PackedExplanations::place_of(const std::vector<std::string>& labels) {
  const auto [place, is_new] = label_places_.emplace(labels, labels_.size());
  if (is_new) {
    labels_.push_back(labels);
    bytes_ += size_of(labels_.back());
  }
  return place->second;
}

ordered_json PackedExplanations::json() {
  add_numbers(std::exchange(large_weights_, {}));
  return {{"explanations", explanations_}, {"labels", labels_}, {"numbers", numbers_}};
}

std::string PackedExplanations::note() const {
  if (left_out_.empty()) return "";
  return fmt::format(
      "The numbers of {} are left out of some steps, which would have too many bytes.",
      fmt::join(left_out_, ", "));
}

}  // namespace attend::app
