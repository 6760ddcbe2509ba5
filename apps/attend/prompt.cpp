#include "prompt.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "terminal.h"

#include <iostream>
#include <iterator>

namespace attend::app {
namespace {

Prompt read_standard_input() {
  return {"standard input",
          {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}};
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
}

Prompt PromptOptions::read() const {
  if (text_->count() > 0) return {"--prompt", text_->results().front()};
  if (file_->count() == 0) {
    if (input_is_terminal()) {
      throw InputError(
          "no prompt: expected --prompt TEXT, --prompt-file FILE or text on standard input");
    }
    return read_standard_input();
  }
  const auto& file = file_->results().front();
  return file == "-" ? read_standard_input() : Prompt{file, read_bytes(file)};
}

}  // namespace attend::app
