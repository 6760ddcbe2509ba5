#include "explain/explanation_page.h"

#include "explain/explanation_json.h"
#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace attend::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxBytes = 10'000'000;        // of a page
constexpr std::size_t kMaxContentBytes = 1'000'000;  // before the last table without JavaScript
constexpr std::size_t kMaxNoteBytes = 100'000;       // of notes and of long indices
constexpr int64_t kMaxShownRows = 32;
constexpr int64_t kMaxShownColumns = 16;

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
  std::size_t num_left_out = 0;
  if (explanation.title != title) paragraph(explanation.title);
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const auto& step = explanation.steps[i];
    html += fmt::format("<h3>{}. {}</h3>\n", i + 1, escaped_html(step.title));
    paragraph(step.formula);
    paragraph(step.description);
    for (const auto& matrix : step.matrices) {
      if (html.size() < kMaxContentBytes)
        html += matrix_table(matrix, explanation.decimals);
      else
        ++num_left_out;
    }
    paragraph(step.calculation);
    paragraph(step.conclusion);
  }
  if (num_left_out > 0)
    paragraph(fmt::format("The last {} tables are left out of this file.", num_left_out));
  return fmt::format("<h1>{}</h1>\n", escaped_html(title)) +
         html_section("explanation", "Steps", html);
}

/// Collects the explanations of a page.
class Page {
 public:
  /// `first`: the explanation whose tables readers without JavaScript see.
  Page(std::string title, const Explanation& first)
      : title_(std::move(title)),
        content_(content_of(first, title_)),
        packed_(kMaxBytes - std::min(kMaxBytes, html_page(content_, {{"title", title_}}).size() +
                                                    kMaxNoteBytes)) {
    has_room_ = packed_.add(first);
  }

  bool has_room() const { return has_room_; }
  void add(const Explanation& explanation) { has_room_ = packed_.add(explanation); }

  /// `count`: number of explanations that the page should contain.
  std::string html(std::size_t count) {
    auto explanation = packed_.json();
    explanation["title"] = title_;
    auto notes = ordered_json::array();
    if (packed_.size() < count) {
      notes.push_back(
          fmt::format("This file has at most 10 MB and therefore contains {} of {} heads. --layer "
                      "and --head choose the first one.",
                      packed_.size(), count));
    }
    if (const auto note = packed_.note(); !note.empty()) notes.push_back(note);
    return html_page(content_,
                     {{"notes", std::move(notes)}, {"explanation", std::move(explanation)}});
  }

 private:
  std::string title_;
  std::string content_;  // HTML
  PackedExplanations packed_;
  bool has_room_ = true;
};

}  // namespace

std::string explanation_page(const Explanation& explanation) {
  return Page(explanation.title, explanation).html(1);
}

std::string explanation_page(ExplainedText text, const RunQuestion& question,
                             const std::string& title) {
  const auto num_layers = text.num_layers();
  const auto num_heads = text.num_heads();
  const RunExplainer explainer(std::move(text), question);
  const auto first = explainer.explain();
  std::vector<std::pair<int64_t, int64_t>> others;  // layer and head
  for (int64_t layer = 1; layer <= num_layers; ++layer) {
    for (int64_t head = 1; head <= num_heads; ++head) {
      if (layer != first.layer || head != first.head) others.emplace_back(layer, head);
    }
  }
  std::stable_partition(others.begin(), others.end(),
                        [&](const auto& place) { return place.first == first.layer; });
  Page page(title, first);
  for (const auto& [layer, head] : others) {
    if (page.has_room()) page.add(explainer.explain(layer, head));
  }
  return page.html(others.size() + 1);
}

}  // namespace attend::app
