#include "explain/explanation_page.h"

#include "explain/explanation_text.h"
#include "io/parse_json.h"
#include "report/encoding.h"
#include "report/html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace attend::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxNumberBytes = 9'000'000;  // of labels and numbers; the rest is below 1 MB
constexpr int64_t kMaxListed = 1000;                // cells of a matrix whose numbers are a list
constexpr int64_t kMaxShownRows = 32;
constexpr int64_t kMaxShownColumns = 16;

/// Returns the numbers of a matrix as JSON: a list of rows or, of a large matrix, base64.
std::string numbers_text(const torch::Tensor& matrix) {
  if (matrix.numel() <= kMaxListed) return json_rows(matrix).dump();
  const auto values = matrix.to(torch::kCPU, torch::kFloat).contiguous();
  const auto* begin = reinterpret_cast<const char*>(values.const_data_ptr<float>());
  return '"' + to_base64({begin, values.nbytes()}) + '"';
}

std::string matrix_table(const LabelledMatrix& matrix, int decimals) {
  const auto rows = std::min(matrix.values.size(0), kMaxShownRows);
  const auto columns = std::min(matrix.values.size(1), kMaxShownColumns);
  const auto values = matrix.values.slice(0, 0, rows).slice(1, 0, columns).to(torch::kDouble);
  Cells header{""};
  header.insert(header.end(), matrix.columns.begin(), matrix.columns.begin() + columns);
  std::vector<Cells> cells;
  for (int64_t i = 0; i < rows; ++i) {
    auto& row = cells.emplace_back(Cells{matrix.rows[static_cast<std::size_t>(i)]});
    for (int64_t j = 0; j < columns; ++j)
      row.push_back(fmt::format("{:.{}f}", values[i][j].item<double>(), decimals));
  }
  auto caption =
      fmt::format("{} ({} x {})", matrix.name, matrix.values.size(0), matrix.values.size(1));
  if (rows < matrix.values.size(0) || columns < matrix.values.size(1))
    caption += fmt::format(": the first {} rows and {} columns", rows, columns);
  return html_table(caption, header, cells);
}

/// Returns the steps as HTML. `title` is that of the page.
std::string content_of(const Explanation& explanation, const std::string& title) {
  std::string html;
  const auto paragraph = [&](const std::string& text) {
    if (!text.empty()) html += fmt::format("<p>{}</p>\n", escaped_html(text));
  };
  if (explanation.title != title) paragraph(explanation.title);
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& step = explanation.steps[i];
    html += fmt::format("<h3>{}. {}</h3>\n", i + 1, escaped_html(step.title));
    paragraph(step.formula);
    paragraph(step.description);
    for (const auto& matrix : step.matrices) html += matrix_table(matrix, explanation.decimals);
    paragraph(step.calculation);
    paragraph(step.conclusion);
  }
  return html;
}

}  // namespace

bool ExplanationPage::add(const Explanation& explanation) {
  const bool is_first = explanations_.empty();
  struct Numbers {
    const LabelledMatrix* matrix;
    std::string text;
  };
  std::vector<Numbers> all;
  std::map<const LabelledMatrix*, ordered_json> places;
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& matrices = explanation.steps[i].matrices;
    for (std::size_t j = 0; j < matrices.size(); ++j) {
      const auto& matrix = matrices[j];
      if (is_first || matrix.by_token || matrix.values.numel() <= kMaxListed) {
        all.push_back({&matrix, numbers_text(matrix.values)});
      } else {
        places[&matrix] = nullptr;
        pending.push_back({explanations_.size(), i, j, matrix.values});
      }
    }
  }
  // Small matrices first: among them are the scores, the weights and the token vectors.
  std::vector<const Numbers*> order;
  for (const auto& numbers : all) order.push_back(&numbers);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->text.size() < b->text.size(); });
  const auto before = bytes_;
  auto bytes = before;
  std::set<std::string_view> added;
  std::set<const LabelledMatrix*> left_out;
  for (const auto* numbers : order) {
    if (number_indices_.contains(numbers->text) || added.contains(numbers->text)) continue;
    if (bytes + numbers->text.size() <= kMaxNumberBytes) {
      added.insert(numbers->text);
      bytes += numbers->text.size();
    } else if (is_first) {
      left_out.insert(numbers->matrix);
    } else {
      return false;
    }
  }
  for (const auto& [matrix, text] : all) {
    if (left_out.contains(matrix)) {
      places[matrix] = nullptr;
      left_out_.insert(matrix->name);
    } else {
      places[matrix] = place_of(text);
    }
  }
  auto json =
      to_json(explanation, [&](const LabelledMatrix& matrix) { return places.at(&matrix); });
  for (auto& step : json["steps"]) {
    for (auto& matrix : step["matrices"]) {
      for (const char* key : {"rows", "columns"})
        matrix[key] = index_of(matrix[key].get<std::vector<std::string>>());
    }
  }
  bytes_ += bytes - before + json_text(json).size();
  if (is_first) content_ = content_of(explanation, title_);
  explanations_.push_back(std::move(json));
  pending_.insert(pending_.end(), pending.begin(), pending.end());
  return true;
}

void ExplanationPage::add_pending() {
  std::stable_sort(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
    return a.values.numel() < b.values.numel();
  });
  for (const auto& [explanation, step, index, values] : pending_) {
    auto& matrix = explanations_[explanation]["steps"][step]["matrices"][index];
    const auto text = numbers_text(values);
    const bool is_new = !number_indices_.contains(text);
    if (is_new && bytes_ + text.size() > kMaxNumberBytes) {
      left_out_.insert(matrix["name"].get<std::string>());
      continue;
    }
    if (is_new) bytes_ += text.size();
    matrix["values"] = place_of(text);
  }
  pending_.clear();
}

std::size_t ExplanationPage::place_of(const std::string& numbers) {
  const auto [place, is_new] = number_indices_.emplace(numbers, numbers_.size());
  if (is_new) numbers_.push_back(ordered_json::parse(numbers));
  return place->second;
}

std::size_t ExplanationPage::index_of(const std::vector<std::string>& labels) {
  const auto [place, is_new] = label_indices_.emplace(labels, labels_.size());
  if (is_new) {
    labels_.push_back(labels);
    bytes_ += json_text(labels_.back()).size();
  }
  return place->second;
}

std::string ExplanationPage::html() {
  add_pending();
  auto notes = notes_;
  if (!left_out_.empty()) {
    notes.push_back(
        fmt::format("The numbers of {} are not in all steps of this file, which has at most 10 MB.",
                    fmt::join(left_out_, ", ")));
  }
  const ordered_json data{{"notes", std::move(notes)},
                          {"explanation",
                           {{"title", title_},
                            {"explanations", explanations_},
                            {"labels", labels_},
                            {"numbers", numbers_}}}};
  std::string content = fmt::format("<h1>{}</h1>\n", escaped_html(title_));
  content += html_section("explanation", "Steps", content_);
  return html_page(content, data);
}

}  // namespace attend::app
