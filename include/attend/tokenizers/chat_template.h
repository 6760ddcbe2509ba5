#pragma once

#include "attend/api.h"

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// A message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant" or another role that the template knows
  std::string content;  ///< text of the message
};

/// Options of `ChatTemplate::render`.
struct ChatOptions {
  bool add_generation_prompt = false;   ///< end with the text that begins an answer
  std::string variables = "{}";         ///< further variables, such as `tools`: a JSON object
  std::optional<std::time_t> now = {};  ///< time of `strftime_now`; by default the current time
};

/// A conversation as the text for a model. A tokenizer must encode it without adding special
/// tokens, which the text contains.
struct RenderedChat {
  std::string text;  ///< prompt of the model
  /// Blocks `{% generation %}` of the template, which contain the answers: first byte in `text`,
  /// and the byte after the last.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

/// The chat template of a published model: a text in the language Jinja that makes the prompt of a
/// model from the messages of a conversation, as `apply_chat_template` of transformers does.
///
/// Templates of foreign folders are safe to use: steps, sizes and nesting are limited, and a
/// template has no access to anything but the messages. docs/chat.md lists the supported parts of
/// Jinja. Any number of threads may use the same template. Needs no LibTorch.
///
///     auto chat = attend::ChatTemplate::parse("Hello {{ messages[0].content }}");
///     chat.render({{.role = "user", .content = "you"}}).text == "Hello you";
class ATTEND_API ChatTemplate {
 public:
  /// Parses a template. `special_tokens`: variables such as `bos_token`. `name`: beginning of the
  /// messages of errors. Throws InputError if the template has an error or a part of Jinja that is
  /// not supported; the message names the line.
  static ChatTemplate parse(std::string source,
                            std::map<std::string, std::string> special_tokens = {},
                            std::string name = "chat template");

  /// Renders a conversation. Throws InputError if there is no message, if the template refuses the
  /// messages (`raise_exception`), exceeds a limit or has an error, such as an attribute of an
  /// undefined variable; the message names the line.
  RenderedChat render(const std::vector<ChatMessage>& messages,
                      const ChatOptions& options = {}) const;
  /// Renders a conversation whose messages are a JSON array of objects, which may have other keys
  /// than `role` and `content`. Throws InputError like the function above, and for invalid JSON.
  RenderedChat render_json(std::string_view messages, const ChatOptions& options = {}) const;

  /// Returns the text of the template.
  const std::string& source() const;
  /// Returns the variables such as `bos_token`.
  const std::map<std::string, std::string>& special_tokens() const;
  /// True if the template has a block `{% generation %}`.
  bool marks_answers() const;

 private:
  struct Parts;

  ChatTemplate() = default;

  std::shared_ptr<const Parts> parts_;
};

/// Loads the chat template of a published model from the file `chat_template.jinja` or, if there is
/// none, from the key `chat_template` of `tokenizer_config.json`. Of several templates with names,
/// loads the one named "default". Returns std::nullopt if there is no template. Throws InputError
/// if a file is damaged, if no template is named "default", or if `ChatTemplate::parse` does.
///
///     auto chat = attend::load_chat_template("Qwen3-0.6B");
///     chat->render({{.role = "user", .content = "Hello"}}, {.add_generation_prompt = true});
ATTEND_API std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& folder);

}  // namespace attend
