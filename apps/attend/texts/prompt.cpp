#include "texts/prompt.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "options.h"
#include "terminal/terminal.h"

#include <iostream>

namespace attend::app {
namespace {

constexpr const char* kStandardInput = "standard input";

/// Returns a prompt without the byte order mark of a file in UTF-8.
Prompt prompt_of(const std::string& source, const std::string& bytes) {
  return {source, std::string(without_byte_order_mark(bytes, source))};
}

Prompt read_standard_input(SizeLimit limit) {
  return prompt_of(kStandardInput, read_all(std::cin, kStandardInput, limit));
}

}  // namespace

void PromptOptions::add_to(CLI::App& command) {
  // The callbacks do nothing: `read` takes the unconverted text from CLI11's results(), since
  // CLI11's conversion to a string would change texts such as [a].
  text_ = command.add_option("--prompt", CLI::callback_t([](const auto&) { return true; }),
                             "prompt text; if empty, the text begins after a line break, which "
                             "must be in the vocabulary");
  text_->type_name("TEXT")->group("Prompt");
  file_ = command.add_option(
      "--prompt-file", CLI::callback_t([](const auto&) { return true; }),
      "file with the prompt; a final newline belongs to the prompt; - = standard "
      "input [standard input]");
  file_->type_name("FILE")->group("Prompt")->excludes(text_);
  add_number(command, "--max-text-bytes", max_bytes_, kPositive,
             "maximum size of the prompt in --prompt-file or standard input", "BYTES")
      ->group("Prompt");
}

Prompt PromptOptions::read() const {
  if (text_->count() > 0) return {"--prompt", text_->results().front()};
  const auto limit = text_limit(max_bytes_);
  if (file_->count() == 0) {
    if (input_is_terminal()) {
      throw InputError(
          "no prompt: expected --prompt TEXT, --prompt-file FILE or text on standard input");
    }
    return read_standard_input(limit);
  }
  const auto& file = file_->results().front();
  return file == "-" ? read_standard_input(limit) : prompt_of(file, read_bytes(file, limit));
}

}  // namespace attend::app
