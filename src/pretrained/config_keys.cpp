#include "pretrained/config_keys.h"

namespace attend {

void ConfigKeys::size(const std::string& key, int64_t& option, int64_t missing, int64_t min,
                      int64_t max) {
  if (reads()) {
    option = reader_->size(key, missing, min, max);
  } else {
    write(key, option);
  }
}

void ConfigKeys::number(const std::string& key, double& option, double missing) {
  if (reads()) {
    option = reader_->number(key, missing);
  } else {
    write(key, option);
  }
}

void ConfigKeys::boolean(const std::string& key, bool& option, bool missing) {
  if (reads()) {
    option = reader_->boolean(key, missing);
  } else {
    write(key, option);
  }
}

void ConfigKeys::require(const std::string& key, const nlohmann::json& expected) {
  if (reads()) {
    reader_->require(key, expected);
  } else {
    write(key, expected);
  }
}

void ConfigKeys::ignore(std::initializer_list<const char*> keys) {
  if (reads()) reader_->ignore(keys);
}

void ConfigKeys::write(const std::string& key, const nlohmann::ordered_json& value) {
  (*json_)[key] = value;
}

}  // namespace attend
