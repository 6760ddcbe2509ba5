#include "train/json_lines.h"

#include "attend/input_error.h"
#include "io/parse_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

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

/// Calls `use(text, json)` for each line; see `for_each_json_line`.
template <typename Use>
void read_lines(const std::filesystem::path& path, bool is_finished, const Use& use) {
  auto file = open_to_read(path);
  std::size_t number = 0;
  for (std::string text; std::getline(file, text);) {
    if (!is_finished && file.eof()) break;  // has no line break
    nlohmann::json json;
    with_source(fmt::format("{}, line {}", path.string(), ++number), [&] {
      json = parse_json(text);
      if (!has_step(json))
        throw InputError("damaged: expected a JSON object with the integer 'step'");
    });
    use(text, json);
  }
  if (file.bad()) throw InputError(fmt::format("{}: cannot be read", path.string()));
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

void for_each_json_line(const std::filesystem::path& path, bool is_finished,
                        const std::function<void(const std::string& line)>& use) {
  read_lines(path, is_finished, [&](const std::string& text, const auto&) { use(text); });
}

std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path, bool is_finished) {
  std::vector<nlohmann::json> lines;
  read_lines(path, is_finished,
             [&](const auto&, nlohmann::json& line) { lines.push_back(std::move(line)); });
  return lines;
}

}  // namespace attend::train
