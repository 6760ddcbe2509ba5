#include "report/html.h"

#include "attend/io/utf8.h"
#include "json_text.h"
#include "report/thinned.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace attend::app {

/// Returns the HTML page apps/page/dist/report.html, into which a report is written. The build
/// makes this function from the file.
std::string_view report_template();

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxColumnRows = 50;

constexpr std::string_view kContent = "<!--content-->";
constexpr std::string_view kData = "<!--data-->";
constexpr std::string_view kPolicy = "default-src 'none';";

/// Splits `text` at the first `marker`, which is in neither part.
std::pair<std::string_view, std::string_view> split_at(std::string_view text,
                                                       std::string_view marker) {
  const auto at = text.find(marker);
  if (at == text.npos)
    throw std::logic_error(fmt::format("the template of the report has no {}", marker));
  return {text.substr(0, at), text.substr(at + marker.size())};
}

}  // namespace

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

std::string value_text_of(const ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  return value.dump();
}

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

std::string columns_table(const std::string& caption, const ordered_json& json, const char* key) {
  if (!json.contains(key)) return "";
  const auto& columns = json.at(key);
  const auto losses = columns.value("val_loss", ordered_json::array());
  Thinned<std::size_t> indices(kMaxColumnRows);
  for (std::size_t i = 0; i < columns.at("step").size(); ++i)
    indices.add(i, i < losses.size() && losses[i].is_number() ? losses[i].get<double>() : NAN);
  Cells header;
  for (const auto& [name, column] : columns.items()) header.push_back(name);
  std::vector<Cells> rows;
  for (const auto i : indices.rows()) {
    auto& row = rows.emplace_back();
    for (const auto& column : columns) row.push_back(value_text_of(column[i]));
  }
  return html_table(caption, header, rows);
}

std::string script_text(const ordered_json& json) {
  std::string text;
  for (const char c : json_text(json)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

std::string html_page(const std::string& content, const ordered_json& data, PageRequests requests) {
  const auto [start, after_policy] = split_at(report_template(), kPolicy);
  const auto [before, rest] = split_at(after_policy, kContent);
  const auto [between, after] = split_at(rest, kData);
  const auto* connections = requests == PageRequests::to_its_server ? " connect-src 'self';" : "";
  return fmt::format("{}{}{}{}{}{}{}{}", start, kPolicy, connections, before, content, between,
                     script_text(data), after);
}

}  // namespace attend::app
