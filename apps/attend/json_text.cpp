#include "json_text.h"

#include "attend/io/check_json.h"

namespace attend::app {

nlohmann::json parse_json(std::string_view text) {
  check_json(text);
  return nlohmann::json::parse(text);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace attend::app
