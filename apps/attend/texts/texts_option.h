#pragma once

#include "texts/prompt.h"

#include <CLI/App.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// Texts for a command: arguments, lines of a file, or lines of standard input.
class TextsOption {
 public:
  /// Adds the arguments TEXT, which follow the argument `before`, and the options --file and
  /// --max-text-bytes. Parsing writes to *this, as for `RunOption::add_to`. `help`: of TEXT.
  void add_to(CLI::App& command, const char* before, const char* help);

  /// Calls `use` with each text and its place, for messages: the text itself, or file and line.
  /// Throws InputError if there are no texts, or if a line cannot be read.
  void for_each(
      const std::function<void(const std::string& text, const std::string& place)>& use) const;

  /// True if all texts are available at once, so that several may be in a batch. A program that
  /// writes a line to standard input may wait for the answer.
  bool are_in_a_file() const { return texts_.empty() && !file_.empty() && file_ != "-"; }

 private:
  std::vector<std::string> texts_;
  std::string file_;
  int64_t max_text_bytes_ = kMaxPromptBytes;
};

}  // namespace attend::app
