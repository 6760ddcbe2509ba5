#include "attend/tokenizers/chat_template.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "io/json_fields.h"
#include "io/parse_json.h"
#include "tokenizers/jinja/renderer.h"
#include "tokenizers/jinja/syntax.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace attend {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Changes a message as transformers does: a key with the value null counts as missing, and the
/// reasoning of a message has both names that templates read.
OrderedJson plain_message(const OrderedJson& message) {
  if (!message.is_object())
    throw InputError(
        fmt::format("expected messages that are objects, found an {}", message.type_name()));
  OrderedJson plain = OrderedJson::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) plain[key] = value;
  }
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    if (!plain.contains(key)) continue;
    const OrderedJson reasoning = plain[key];
    plain["reasoning_content"] = reasoning;
    if (!plain.contains("thinking")) plain["thinking"] = reasoning;
    break;
  }
  return plain;
}

std::tm local_time(std::time_t time) {
  std::tm local{};
  ::localtime_r(&time, &local);
  return local;
}

bool has_generation(const jinja::Body& body) {
  return std::ranges::any_of(body, [](const auto& statement) {
    return statement->kind == jinja::Statement::Kind::generation ||
           std::ranges::any_of(statement->bodies, has_generation);
  });
}

/// Keys of `tokenizer_config.json` that templates read as variables.
constexpr std::array<const char*, 7> kTokenKeys{"bos_token", "eos_token", "unk_token", "sep_token",
                                                "pad_token", "cls_token", "mask_token"};

/// Adds the special tokens of a JSON object. A token is a string or an object with its content.
void add_special_tokens(const nlohmann::json& json, std::map<std::string, std::string>& tokens) {
  for (const auto* key : kTokenKeys) {
    if (!json.contains(key)) continue;
    const auto& value = json[key];
    const auto& token = value.is_object() && value.contains("content") ? value["content"] : value;
    if (token.is_null()) continue;
    if (!token.is_string())
      throw InputError(fmt::format("`{}`: found {}, expected a string", key, shown(value)));
    tokens.emplace(key, token.get<std::string>());
  }
}

/// Returns the template of the value of `chat_template`: a string, or a list of templates with
/// names.
std::string default_template(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::vector<std::string> names;
  if (value.is_array()) {
    for (const auto& each : value) {
      if (!each.is_object() || !each.contains("name") || !each.contains("template") ||
          !each["name"].is_string() || !each["template"].is_string())
        break;
      names.push_back(each["name"].get<std::string>());
      if (names.back() == "default") return each["template"].get<std::string>();
    }
    if (names.size() == value.size()) {
      throw InputError(
          fmt::format("`chat_template`: found templates named {}, expected one named default",
                      printable(fmt::format("{}", fmt::join(names, ", ")))));
    }
  }
  throw InputError(fmt::format(
      "`chat_template`: found {}, expected a string or a list of objects with name and template",
      shown(value)));
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return nlohmann::json::object();
  return with_json_file(path, [](JsonFields& fields) { return fields.json(); });
}

}  // namespace

struct ChatTemplate::Parts {
  std::string source;
  std::map<std::string, std::string> special_tokens;
  std::string name;
  jinja::Body body;
  bool marks_answers = false;
};

ChatTemplate ChatTemplate::parse(std::string source,
                                 std::map<std::string, std::string> special_tokens,
                                 std::string name) {
  auto parts = std::make_shared<Parts>();
  parts->source = std::move(source);
  parts->special_tokens = std::move(special_tokens);
  parts->name = std::move(name);
  parts->body = jinja::parse_template(parts->source, parts->name);
  parts->marks_answers = has_generation(parts->body);
  ChatTemplate made;
  made.parts_ = std::move(parts);
  return made;
}

RenderedChat ChatTemplate::render(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const {
  auto json = OrderedJson::array();
  for (const auto& message : messages) {
    check_utf8(message.content, "the content of a message");
    check_utf8(message.role, "the role of a message");
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  return render_json(json.dump(), options);
}

RenderedChat ChatTemplate::render_json(std::string_view messages,
                                       const ChatOptions& options) const {
  const auto json = parse_ordered_json(messages);
  if (!json.is_array() || json.empty())
    throw InputError(fmt::format("expected a list of at least one message, found {}", shown(json)));
  auto plain = OrderedJson::array();
  for (const auto& message : json) plain.push_back(plain_message(message));
  const auto variables = parse_ordered_json(options.variables);
  if (!variables.is_object())
    throw InputError(
        fmt::format("expected variables in a JSON object, found {}", shown(variables)));
  std::map<std::string, jinja::Value> values{
      {"messages", jinja::Value::of_json(plain)},
      {"tools", {}},
      {"documents", {}},
      {"add_generation_prompt", options.add_generation_prompt}};
  for (const auto& [name, token] : parts_->special_tokens) values.emplace(name, token);
  for (const auto& [name, value] : variables.items())
    values.insert_or_assign(name, jinja::Value::of_json(value));
  const auto now = local_time(options.now.value_or(std::time(nullptr)));
  auto rendered = jinja::render(parts_->body, parts_->name, values, now);
  return {std::move(rendered.text), std::move(rendered.generated)};
}

const std::string& ChatTemplate::source() const {
  return parts_->source;
}

const std::map<std::string, std::string>& ChatTemplate::special_tokens() const {
  return parts_->special_tokens;
}

bool ChatTemplate::marks_answers() const {
  return parts_->marks_answers;
}

std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& folder) {
  const auto config_path = file_in(folder, "tokenizer_config.json");
  const auto config = read_json_object(config_path);
  const auto file = file_in(folder, "chat_template.jinja");
  const bool has_file = std::filesystem::exists(file);
  if (!has_file && (!config.contains("chat_template") || config["chat_template"].is_null()))
    return std::nullopt;
  std::map<std::string, std::string> tokens;
  with_source(config_path.string(), [&] { add_special_tokens(config, tokens); });
  const auto map_path = file_in(folder, "special_tokens_map.json");
  with_source(map_path.string(), [&] { add_special_tokens(read_json_object(map_path), tokens); });
  if (has_file) {
    constexpr SizeLimit kLimit{.bytes = std::size_t{1} << 20};
    return ChatTemplate::parse(read_text(file, kLimit), std::move(tokens), file.string());
  }
  auto source =
      with_source(config_path.string(), [&] { return default_template(config["chat_template"]); });
  return ChatTemplate::parse(std::move(source), std::move(tokens),
                             config_path.string() + ", chat_template");
}

}  // namespace attend
