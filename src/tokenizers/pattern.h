#pragma once

#include "tokenizers/fields.h"
#include "tokenizers/regex.h"

#include <optional>
#include <string>
#include <string_view>

namespace attend::tokenizers {

/// The `pattern` of Split and Replace: a text or a regular expression.
class Pattern {
 public:
  /// Reads the key `pattern`, an object with the key `String` or `Regex`.
  explicit Pattern(JsonFields& fields);

  /// Calls `use` with the span of each match in `text`, from left to right.
  template <typename Use>
  void for_each_match(std::string_view text, StepBudget& budget, const Use& use) const {
    if (regex_) {
      regex_->for_each_match(text, budget, use);
      return;
    }
    for (auto at = text.find(string_); at != text.npos;
         at = text.find(string_, at + string_.size()))
      use(Span{at, at + string_.size()});
  }

  /// Returns `text` with each match replaced by `content`.
  std::string replaced(std::string_view text, std::string_view content, StepBudget& budget) const;

 private:
  std::string string_;
  std::optional<Regex> regex_;
};

}  // namespace attend::tokenizers
