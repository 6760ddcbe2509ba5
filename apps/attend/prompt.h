#pragma once

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// A text to continue, and where it comes from, for messages.
struct Prompt {
  std::string source;
  std::string text;
};

/// The options that say what the prompt is.
class PromptOptions {
 public:
  /// Adds them to a command; this must live until it has run.
  void add_to(CLI::App& command);

  /// The text of the one that was given; of none, standard input, unless that is a terminal.
  /// Throws InputError if there is none, or it cannot be read.
  Prompt read() const;

 private:
  CLI::Option* text_ = nullptr;
  CLI::Option* file_ = nullptr;
};

}  // namespace attend::app
