#pragma once

#include "attend/io/vocabulary.h"
#include "attend/train/task.h"

#include <CLI/App.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace attend::app {

/// Default of --max-text-bytes for texts that are encoded at once.
inline constexpr int64_t kMaxPromptBytes = int64_t{16} << 20;

/// A prompt, and the name of its source for error messages.
struct Prompt {
  std::string source;
  std::string text;
};

/// Returns `function()`. If `function` throws UnknownTokenError and `task` has the option
/// --tokenizer, the message also names the options with which a model accepts any token.
template <typename Function>
auto with_options_of_task(const std::string& task, const Function& function) {
  const auto& keys = train::find_task(task).data_keys;
  if (std::find(keys.begin(), keys.end(), "tokenizer") == keys.end()) return function();
  return changing_unknown_token(&UnknownTokenError::with_options, function);
}

/// The options --prompt, --prompt-file and --max-text-bytes.
class PromptOptions {
 public:
  /// Adds the options to `command`, which owns them. Call `read` after `command` has been parsed
  /// and before `command` is destroyed.
  void add_to(CLI::App& command);

  /// Reads the prompt: --prompt, else --prompt-file, else standard input if it is not a terminal.
  /// Throws InputError if there is no prompt, or if the file cannot be read or is too large.
  Prompt read() const;

  /// Maximum size of a prompt, in bytes.
  int64_t max_bytes() const { return max_bytes_; }

 private:
  CLI::Option* text_ = nullptr;
  CLI::Option* file_ = nullptr;
  int64_t max_bytes_ = kMaxPromptBytes;
};

}  // namespace attend::app
