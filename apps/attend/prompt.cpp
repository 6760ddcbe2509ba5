#include "prompt.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "number_option.h"
#include "terminal.h"

#include <iostream>

namespace attend::app {
namespace {

Prompt read_standard_input(SizeLimit limit) {
  constexpr const char* kSource = "standard input";
  return {kSource, read_all(std::cin, kSource, limit)};
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
  return file == "-" ? read_standard_input(limit) : Prompt{file, read_bytes(file, limit)};
}

}  // namespace attend::app
