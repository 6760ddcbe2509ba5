#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// A prompt, and the name of its source for error messages.
struct Prompt {
  std::string source;
  std::string text;
};

/// The options --prompt and --prompt-file.
class PromptOptions {
 public:
  /// Adds the options to `command`, which owns them. Call `read` after `command` has been parsed
  /// and before `command` is destroyed.
  void add_to(CLI::App& command);

  /// Reads the prompt: --prompt, else --prompt-file, else standard input if it is not a terminal.
  /// Throws InputError if there is no prompt or the file cannot be read.
  Prompt read() const;

 private:
  CLI::Option* text_ = nullptr;
  CLI::Option* file_ = nullptr;
};

}  // namespace attend::app
