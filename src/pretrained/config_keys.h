#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "io/json_fields.h"

#include <nlohmann/json.hpp>

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace attend {

/// The keys of a `config.json`, and the options of a model that they set. The declaration of an
/// architecture calls the same functions to read the keys and to write them. An option that no key
/// can express is written as another; `config_differences` finds it when the keys are read.
///
///     keys.size("n_embd", stack.embed_dim, 768);
///     keys.require("scale_attn_weights", true);
class ATTEND_API ConfigKeys {
 public:
  /// Reads. `class_name`: value of the key architectures, such as GPT2LMHeadModel.
  ConfigKeys(JsonFields& reader, std::string class_name)
      : reader_(&reader), class_name_(std::move(class_name)) {}
  /// Writes.
  ConfigKeys(nlohmann::ordered_json& json, std::string class_name)
      : json_(&json), class_name_(std::move(class_name)) {}

  bool reads() const { return reader_ != nullptr; }
  /// The reader; only if `reads`.
  JsonFields& reader() { return *reader_; }
  const std::string& class_name() const { return class_name_; }

  // Each of these functions reads an option (throws InputError if the value is out of range), or
  // writes it. `missing`: value of an absent key.
  void size(const std::string& key, int64_t& option, int64_t missing, int64_t min = 1,
            int64_t max = std::numeric_limits<int32_t>::max());
  void number(const std::string& key, double& option, double missing);
  void boolean(const std::string& key, bool& option, bool missing);
  /// Writes null if the option has no name.
  template <typename T, typename Choices = std::initializer_list<std::pair<std::string_view, T>>>
  void choice(const std::string& key, T& option, std::string_view missing, const Choices& choices) {
    if (reads()) {
      option = reader_->choice<T>(key, missing, choices);
      return;
    }
    for (const auto& [name, value] : choices) {
      if (value == option) return write(key, name);
    }
    write(key, nullptr);
  }
  /// Reads or writes an activation by its name.
  template <typename Choices>
  void activation(const std::string& key, FeedForwardActivation& option, std::string_view missing,
                  const Choices& choices) {
    if (auto* named = std::get_if<Activation>(&option)) {
      choice(key, *named, missing, choices);
    } else {
      write(key, nullptr);  // a function
    }
  }

  /// Reading throws InputError if a key has a value other than `expected`.
  void require(const std::string& key, const nlohmann::json& expected);
  /// Accepts keys that have no effect. Writes nothing.
  void ignore(std::initializer_list<const char*> keys);
  /// Writes a key; only if not `reads`.
  void write(const std::string& key, const nlohmann::ordered_json& value);

 private:
  JsonFields* reader_ = nullptr;
  nlohmann::ordered_json* json_ = nullptr;
  std::string class_name_;
};

/// Names of activations, as choices of `ConfigKeys::activation`.
inline constexpr std::array<std::pair<std::string_view, Activation>, 6> kActivations{
    {{"gelu", Activation::gelu},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"relu", Activation::relu},
     {"silu", Activation::silu},
     {"swish", Activation::silu}}};

}  // namespace attend
