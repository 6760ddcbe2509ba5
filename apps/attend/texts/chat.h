#pragma once

#include "texts/text_model.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace attend::app {

/// Options of `hold_chat`.
struct ChatArguments {
  std::optional<std::string> system = std::nullopt;  ///< message with the role "system"
  int64_t max_new_tokens = 200;                      ///< tokens for which a prompt leaves room
  int64_t max_line_bytes = 0;                        ///< maximum size of a line of standard input
};

/// Generates and prints the answer to a prompt, and returns its text. `turn`: number of answers
/// before this one. `is_stopped` becomes true if Ctrl-C is pressed.
using ChatAnswer = std::function<std::string(const TextModel::Tokens& prompt, uint64_t turn,
                                             const std::function<bool()>& is_stopped)>;

/// Returns the tokens that end an answer: those of the model, the end token of the tokenizer, and
/// the special token that the template puts after an answer. Throws InputError if the model has no
/// chat template. `directory`: for the message.
TextModel::Tokens end_of_turn_tokens(const TextModel& text, const std::string& directory);

/// Holds a conversation: reads messages from standard input, one per line, until its end or the
/// line /exit. /reset begins a new conversation. On a terminal, Ctrl-C ends an answer, and errors
/// such as a message that is too long do not end the conversation.
void hold_chat(const TextModel& text, const ChatArguments& arguments, const ChatAnswer& answer);

}  // namespace attend::app
