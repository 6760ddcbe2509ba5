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

/// Returns `function()`. If `function` throws UnknownTokenError and `task` does not have the option
/// --tokenizer, the message names no options.
template <typename Function>
auto without_options_of_other_tasks(const std::string& task, const Function& function) {
  try {
    return function();
  } catch (const UnknownTokenError& error) {
    const auto& keys = train::find_task(task).data_keys;
    if (std::find(keys.begin(), keys.end(), "tokenizer") != keys.end()) throw;
    throw InputError(error.problem());
  }
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

 private:
  CLI::Option* text_ = nullptr;
  CLI::Option* file_ = nullptr;
  int64_t max_bytes_ = kMaxPromptBytes;
};

}  // namespace attend::app
