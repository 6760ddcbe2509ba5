#include "report/write_report.h"

#include "attend/io/files.h"
#include "report/attention_data.h"
#include "report/html.h"
#include "report/report_data.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::app {

namespace {

using nlohmann::ordered_json;
constexpr std::size_t kMaxTableRows = 50;       // of nearest neighbors
constexpr std::size_t kMaxAttentionTable = 32;  // rows and columns

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
    const auto text = value_text_of(value);
    if (key != "recipe_toml" && !text.empty()) rows.push_back({key, text});
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

/// Returns the JSON of the data.
ordered_json json_of(const ReportData& data) {
  auto json = data.json;
  if (!data.attention.empty()) {
    auto& all = json["attention"] = ordered_json::array();
    for (const auto& matrices : data.attention) all.push_back(to_json(matrices));
  }
  return json;
}

}  // namespace

void write_report(const std::filesystem::path& directory, const std::filesystem::path& file) {
  const auto data = report_data(directory);
  replace_file(file, html_page(content_of(data), json_of(data)));
}

ServedReport served_report(const std::filesystem::path& directory, const std::string& version) {
  auto data = report_data(directory);
  data.json["version"] = version;
  const auto json = json_of(data);
  return {version, html_page(content_of(data), json, PageRequests::to_its_server),
          script_text(json)};
}

}  // namespace attend::app
