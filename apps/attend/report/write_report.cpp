#include "report/write_report.h"

#include "inspect_run.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "io/utf8.h"
#include "report/attention_data.h"
#include "report/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace attend::app {

/// Returns the HTML page apps/page/dist/report.html, into which a report is written. The build
/// makes this function from the file.
std::string_view report_template();

namespace {

using nlohmann::ordered_json;
using Cells = std::vector<std::string>;

constexpr std::size_t kMaxTableRows = 50;
constexpr std::size_t kMaxAttentionTable = 32;  // rows and columns

constexpr std::string_view kContent = "<!--content-->";
constexpr std::string_view kData = "<!--data-->";

/// Returns `text` as HTML.
std::string escaped_html(std::string_view text) {
  std::string html;
  for (const char c : replace_invalid_utf8(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        // HTML allows no control characters except white space.
        html += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return html;
}

/// Returns a value of the JSON as text: strings without quotes, null as "-".
std::string value_text_of(const ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  return value.dump();
}

/// Returns a table. The first cell of each row is its header.
std::string html_table(const std::string& caption, const Cells& header,
                       const std::vector<Cells>& rows) {
  std::string html = fmt::format("<table><caption>{}</caption>\n", escaped_html(caption));
  if (!header.empty()) {
    html += "<thead><tr>";
    for (const auto& cell : header)
      html +=
          cell.empty() ? "<td></td>" : fmt::format("<th scope=\"col\">{}</th>", escaped_html(cell));
    html += "</tr></thead>\n";
  }
  html += "<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", escaped_html(row[i]))
                     : fmt::format("<td>{}</td>", escaped_html(row[i]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string html_section(const char* id, const char* heading, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, heading, content);
}

/// Returns a table of columns of numbers. If there are many rows, every k-th row and the last one
/// are shown.
std::string columns_table(const char* caption, const ordered_json& json, const char* key) {
  if (!json.contains(key) || json.at(key).empty()) return "";
  const auto& columns = json.at(key);
  Cells header;
  for (const auto& [name, column] : columns.items()) header.push_back(name);
  const auto size = columns.begin()->size();
  const auto stride = std::max<std::size_t>(1, (size + kMaxTableRows - 1) / kMaxTableRows);
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < size; ++i) {
    if (i % stride != 0 && i + 1 < size) continue;
    auto& row = rows.emplace_back();
    for (const auto& column : columns) row.push_back(value_text_of(column[i]));
  }
  return html_table(caption, header, rows);
}

/// Returns the weights of the last layer, averaged over the heads, in percent.
std::string attention_table(const AttentionMatrices& matrices) {
  const auto mean = (matrices.weights[-1].to(torch::kFloat).mean(0) * (100.0 / 255)).contiguous();
  const auto rows = std::min(matrices.rows.size(), kMaxAttentionTable);
  const auto columns = std::min(matrices.columns.size(), kMaxAttentionTable);
  Cells header{""};
  header.insert(header.end(), matrices.columns.begin(),
                matrices.columns.begin() + static_cast<std::ptrdiff_t>(columns));
  std::vector<Cells> cells;
  const auto* values = mean.const_data_ptr<float>();
  for (std::size_t i = 0; i < rows; ++i) {
    auto& row = cells.emplace_back(Cells{matrices.rows[i]});
    for (std::size_t j = 0; j < columns; ++j)
      row.push_back(fmt::format("{:.0f}", values[i * matrices.columns.size() + j]));
  }
  const bool whole = rows == matrices.rows.size() && columns == matrices.columns.size();
  return html_table(
      fmt::format("{}, sample {}: weights of the last layer in percent, mean over the heads{}",
                  matrices.title, matrices.sample + 1,
                  whole ? "" : fmt::format(" (the first {} rows and columns)", kMaxAttentionTable)),
      header, cells);
}

std::string attention_content(const std::vector<AttentionMatrices>& attention) {
  std::string html;
  for (const auto& matrices : attention) {
    if (matrices.sample == attention.front().sample) html += attention_table(matrices);
  }
  return html;
}

std::string embeddings_content(const ordered_json& json) {
  if (!json.contains("embeddings")) return "";
  const auto& embeddings = json.at("embeddings");
  const auto& tokens = embeddings.at("tokens");
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < std::min(tokens.size(), kMaxTableRows); ++i) {
    auto& row = rows.emplace_back(Cells{tokens[i].get<std::string>()});
    const auto& neighbors = embeddings.at("neighbors")[i];
    for (std::size_t j = 0; j < neighbors.size(); ++j) {
      row.push_back(fmt::format("{} {:.2f}",
                                tokens[neighbors[j].get<std::size_t>()].get<std::string>(),
                                embeddings.at("similarities")[i][j].get<double>()));
    }
  }
  return html_table(fmt::format("Nearest neighbors of {} of {} tokens (cosine similarity)",
                                rows.size(), embeddings.at("vocab_size").get<int64_t>()),
                    {}, rows);
}

std::string samples_content(const ordered_json& json) {
  if (!json.contains("samples")) return "";
  const auto& last = json.at("samples").back();
  std::vector<Cells> rows;
  for (const auto& sample : last.at("samples")) {
    rows.push_back({sample.at("input").get<std::string>(), sample.at("output").get<std::string>(),
                    value_text_of(sample.at("expected"))});
  }
  return html_table(
      fmt::format("Outputs of the model after step {}", last.at("step").get<int64_t>()),
      {"input", "output", "expected"}, rows);
}

void add_module(const ordered_json& module, std::size_t depth, std::vector<Cells>& rows) {
  const auto repeats = module.at("repeats").get<int64_t>();
  std::string indent;
  for (std::size_t i = 0; i < depth; ++i) indent += "\u00a0\u00a0";
  rows.push_back({indent + module.at("name").get<std::string>(),
                  module.at("type").get<std::string>(), module.at("shape").get<std::string>(),
                  fmt::format("{}{}", module.at("parameters").get<int64_t>(),
                              repeats == 1 ? "" : fmt::format(" × {}", repeats))});
  for (const auto& child : module.at("children")) add_module(child, depth + 1, rows);
}

std::string model_content(const ordered_json& json) {
  if (!json.contains("model")) return "";
  std::vector<Cells> rows;
  add_module(json.at("model"), 0, rows);
  return html_table("Modules", {"module", "type", "shape", "parameters"}, rows);
}

std::string run_content_of(const ordered_json& json) {
  const auto& run = json.at("run");
  std::vector<Cells> rows;
  for (const auto& [key, value] : run.items()) {
    if (key == "recipe_toml" || value == "") continue;
    rows.push_back(
        {key, key == "command" ? command_text(value.get<Cells>()) : value_text_of(value)});
  }
  std::string html = html_table("Run", {}, rows);
  html += fmt::format("<h3>recipe.toml</h3>\n<pre>{}</pre>\n",
                      escaped_html(run.at("recipe_toml").get<std::string>()));
  for (const auto& note : json.at("notes"))
    html += fmt::format("<p>{}</p>\n", escaped_html(note.get<std::string>()));
  return html;
}

std::string content_of(const ReportData& data) {
  const auto& json = data.json;
  return fmt::format("<h1>{}</h1>\n", escaped_html(json.at("run").at("name").get<std::string>())) +
         html_section("curves", "Curves",
                      columns_table("Evaluations", json, "evaluations") +
                          columns_table("Training", json, "training")) +
         html_section("attention", "Attention", attention_content(data.attention)) +
         html_section("embeddings", "Token embeddings", embeddings_content(json)) +
         html_section("samples", "Samples", samples_content(json)) +
         html_section("model", "Model", model_content(json)) +
         html_section("run", "Run", run_content_of(json));
}

/// Returns the JSON of the data without '<', so that it can be the content of a script element.
std::string script_text(const ReportData& data) {
  auto json = data.json;
  if (!data.attention.empty()) {
    auto& all = json["attention"] = ordered_json::array();
    for (const auto& matrices : data.attention) all.push_back(to_json(matrices));
  }
  std::string text;
  for (const char c : json_text(json)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

/// Splits `text` at the first `marker`, which is in neither part.
std::pair<std::string_view, std::string_view> split_at(std::string_view text,
                                                       std::string_view marker) {
  const auto at = text.find(marker);
  if (at == text.npos)
    throw std::logic_error(fmt::format("the template of the report has no {}", marker));
  return {text.substr(0, at), text.substr(at + marker.size())};
}

/// Returns the report as an HTML page that needs no other files. The page contains the data for its
/// script, and tables for readers without JavaScript. All texts of the run are escaped.
std::string report_page(const ReportData& data) {
  const auto [before, rest] = split_at(report_template(), kContent);
  const auto [between, after] = split_at(rest, kData);
  return fmt::format("{}{}{}{}{}", before, content_of(data), between, script_text(data), after);
}

}  // namespace

void write_report(const std::filesystem::path& directory, const std::filesystem::path& file) {
  replace_file(file, report_page(report_data(directory)));
}

}  // namespace attend::app
