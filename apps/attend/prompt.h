#pragma once

#include <CLI/App.hpp>

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
