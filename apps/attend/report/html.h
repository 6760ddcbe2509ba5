#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace attend::app {

/// Cells of a row.
using Cells = std::vector<std::string>;

/// Returns `text` as HTML.
std::string escaped_html(std::string_view text);

/// Returns a value of the JSON as text: strings without quotes, null as "-".
std::string value_text_of(const nlohmann::ordered_json& value);

/// Returns a table. The first cell of each row is its header. Texts are escaped.
std::string html_table(const std::string& caption, const Cells& header,
                       const std::vector<Cells>& rows);

/// Returns a table of the columns `json[key]`, one of which is `step`; an empty text if there are
/// none. Many rows are thinned.
std::string columns_table(const std::string& caption, const nlohmann::ordered_json& json,
                          const char* key);

/// Returns a section of a page; an empty text if it has no content. `content` is HTML.
std::string html_section(const char* id, const char* heading, const std::string& content);

/// Returns JSON without '<', so that it can be the content of a script element.
std::string script_text(const nlohmann::ordered_json& json);

/// Where a page may send requests.
enum class PageRequests { none, to_its_server };

/// Returns an HTML page that needs no other files. `content` is the HTML of its sections, for
/// readers without JavaScript; the script of the page draws `data` (apps/page/README.md).
std::string html_page(const std::string& content, const nlohmann::ordered_json& data,
                      PageRequests requests = PageRequests::none);

}  // namespace attend::app
