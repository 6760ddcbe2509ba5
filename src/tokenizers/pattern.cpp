#include "tokenizers/pattern.h"

#include "attend/input_error.h"

namespace attend::tokenizers {

Pattern::Pattern(JsonFields& fields) {
  auto pattern = fields.object("pattern");
  if (pattern.has("String")) {
    string_ = pattern.string("String");
    if (string_.empty()) regex_.emplace("");  // matches between all characters
  } else {
    const auto text = pattern.string("Regex");
    with_source("`" + pattern.path_of("Regex") + "`", [&] {
      regex_.emplace(text);
      return 0;
    });
  }
  pattern.finish();
}

std::string Pattern::replaced(std::string_view text, std::string_view content,
                              StepBudget& budget) const {
  std::string result;
  std::size_t end = 0;
  for_each_match(text, budget, [&](Span match) {
    result += text.substr(end, match.begin - end);
    result += content;
    end = match.end;
  });
  result += text.substr(end);
  return result;
}

}  // namespace attend::tokenizers
