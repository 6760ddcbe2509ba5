#include "train/json_lines.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "io/parse_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

namespace attend::train {
namespace {

bool has_step(const nlohmann::json& line) {
  if (!line.is_object()) return false;
  const auto step = line.find("step");
  return step != line.end() && step->is_number_unsigned() &&
         step->get<uint64_t>() <= std::numeric_limits<int64_t>::max();
}

/// True if a line is complete, and its step is at most `last_step`.
bool is_kept(const std::string& text, int64_t last_step) {
  const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return has_step(line) && line.at("step").get<int64_t>() <= last_step;
}

}  // namespace

AppendFile open_json_lines(const std::filesystem::path& path, int64_t last_step) {
  if (last_step < 0) return {path, "w"};
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_bytes(path));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      if (is_kept(line, last_step)) kept += line + "\n";
    }
    replace_file(path, kept);
  }
  return {path, "a"};
}

std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path, bool is_finished) {
  auto text = read_bytes(path);
  if (!is_finished) text.resize(text.rfind('\n') + 1);
  std::istringstream lines(text);
  std::vector<nlohmann::json> parsed;
  for (std::string line; std::getline(lines, line);) {
    with_source(fmt::format("{}, line {}", path.string(), parsed.size() + 1), [&] {
      auto json = parse_json(line);
      if (!has_step(json))
        throw InputError("damaged: expected a JSON object with the integer 'step'");
      parsed.push_back(std::move(json));
    });
  }
  return parsed;
}

}  // namespace attend::train
