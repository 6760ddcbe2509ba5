#include "pretrained/config_reader.h"

#include "io/files.h"
#include "io/parse_json.h"

namespace attend {
namespace {

constexpr SizeLimit kMaxConfig{.bytes = std::size_t{16} << 20};

}  // namespace

ConfigReader::ConfigReader(const std::filesystem::path& path)
    : ConfigReader(path, "", with_source(path.string(), [&] {
                     return parse_json(read_bytes(path, kMaxConfig));
                   })) {}

ConfigReader::ConfigReader(const std::filesystem::path& path, std::string name, nlohmann::json json)
    : path_(path), name_(std::move(name)), json_(std::move(json)) {
  if (!json_.is_object()) {
    throw InputError(fmt::format("{}: {}found {}, expected an object", path_.string(), name_,
                                 json_.type_name()));
  }
}

const nlohmann::json* ConfigReader::find(const char* key) {
  known_.insert(key);
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

void ConfigReader::fail(const char* key, const std::string& found,
                        const std::string& expected) const {
  throw InputError(
      fmt::format("{}: {}{} is {}, expected {}", path_.string(), name_, key, found, expected));
}

int64_t ConfigReader::integer(const char* key, int64_t otherwise, int64_t min, int64_t max) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer() || value->get<int64_t>() < min || value->get<int64_t>() > max)
    fail(key, json_text(*value), fmt::format("an integer from {} to {}", min, max));
  return value->get<int64_t>();
}

std::optional<int64_t> ConfigReader::optional_integer(const char* key) {
  if (!has(key)) {
    known_.insert(key);
    return std::nullopt;
  }
  return integer(key, 0, 0);
}

double ConfigReader::number(const char* key, double otherwise) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) fail(key, json_text(*value), "a number");
  return value->get<double>();
}

bool ConfigReader::boolean(const char* key, bool otherwise) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, json_text(*value), "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(key, json_text(*value), "a string");
  return value->get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const char* key) {
  std::vector<std::string> list;
  const auto* value = find(key);
  if (value == nullptr) return list;
  if (!value->is_array()) fail(key, json_text(*value), "a list of strings");
  for (const auto& each : *value) {
    if (!each.is_string()) fail(key, json_text(*value), "a list of strings");
    list.push_back(each.get<std::string>());
  }
  return list;
}

std::vector<int64_t> ConfigReader::integers(const char* key) {
  const auto* value = find(key);
  if (value == nullptr) return {};
  std::vector<int64_t> list;
  for (const auto& each : value->is_array() ? *value : nlohmann::json::array({*value})) {
    if (!each.is_number_integer()) fail(key, json_text(*value), "an integer or a list of integers");
    list.push_back(each.get<int64_t>());
  }
  return list;
}

ConfigReader ConfigReader::object(const char* key) {
  const auto* value = find(key);
  return {path_, fmt::format("{}{}.", name_, key),
          value == nullptr ? nlohmann::json::object() : *value};
}

void ConfigReader::require(const char* key, const nlohmann::json& value) {
  const auto* found = find(key);
  if (found != nullptr && *found != value) fail(key, json_text(*found), json_text(value));
}

void ConfigReader::ignore(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigReader::finish() const {
  for (const auto& [key, value] : json_.items()) {
    if (known_.count(key) == 0) {
      throw InputError(fmt::format("{}: unknown key {}{} with the value {}", path_.string(), name_,
                                   key, json_text(value)));
    }
  }
}

}  // namespace attend
