#include "texts/texts_option.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "options.h"
#include "terminal/terminal.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>

namespace attend::app {
namespace {

/// Adds the arguments TEXT. CLI11 would parse a text such as [()] as a list and remove its
/// brackets. Therefore the texts are collected by a validator, which CLI11 calls with the unchanged
/// argument. CLI11 also validates the parsed lists, after it has called the callback of the
/// argument `before`. With an unlimited number of expected texts, arguments after "--" are texts
/// also if other texts precede them.
CLI::Option* add_texts(CLI::App& command, const char* before, const char* help,
                       std::vector<std::string>& texts) {
  const auto* first = command.get_option(before);
  command.validate_positionals();
  return command.add_option("text", CLI::callback_t([](const auto&) { return true; }), help)
      ->type_name("TEXT")
      ->expected(CLI::detail::expected_max_vector_size, -1)
      ->allow_extra_args()
      ->take_all()
      ->check([first, &texts](const std::string& text) {
        if (!first->get_callback_run()) texts.push_back(text);
        return std::string();
      });
}

}  // namespace

void TextsOption::add_to(CLI::App& command, const char* before, const char* help) {
  auto* texts = add_texts(command, before, help, texts_);
  command
      .add_option("--file", file_,
                  "file with one text per line; - = standard input [standard input]")
      ->type_name("FILE")
      ->check([](const std::string& file) { return file.empty() ? "must not be empty" : ""; })
      ->excludes(texts);
  add_number(command, "--max-text-bytes", max_text_bytes_, kPositive,
             "maximum size of a line of --file or standard input", "BYTES");
}

void TextsOption::for_each(
    const std::function<void(const std::string&, const std::string&)>& use) const {
  for (const auto& text : texts_) use(text, fmt::format("'{}'", printable(text)));
  if (!texts_.empty()) return;
  if (file_.empty() && input_is_terminal())
    throw InputError("no text: expected TEXT, --file FILE or lines on standard input");
  std::ifstream file;
  if (are_in_a_file()) file = open_to_read(file_);
  auto& input = are_in_a_file() ? static_cast<std::istream&>(file) : std::cin;
  const auto source = are_in_a_file() ? file_ : "standard input";
  std::string line;
  for (int64_t number = 1;; ++number) {
    const auto place = fmt::format("{}:{}", source, number);
    if (!read_line(input, line, place, text_limit(max_text_bytes_))) return;
    if (line.ends_with('\r')) line.pop_back();
    if (number == 1) line.erase(0, line.size() - without_byte_order_mark(line, place).size());
    use(line, place);
  }
}

}  // namespace attend::app
