#pragma once

#include "attend/api.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct re_pattern_buffer;  // of Oniguruma

namespace attend::tokenizers {

/// Part of a text, in bytes.
struct Span {
  std::size_t begin;
  std::size_t end;
};

/// Number of backtracking steps that the regular expressions of a tokenizer may still take in a
/// text. All searches in the text and in its pieces share it.
class StepBudget {
 public:
  /// Adds the steps for one pass over a text.
  void add_text(std::size_t bytes) { total_ += kStepsPerByte * bytes; }
  void spend(std::size_t steps) { spent_ += steps; }
  std::size_t left() const { return total_ - spent_; }
  std::size_t total() const { return total_; }

  /// Enough for a pattern that goes back over a whole text once for each of its alternatives.
  static constexpr std::size_t kStepsPerByte = 32;

 private:
  std::size_t total_ = 1'000'000;
  std::size_t spent_ = 0;
};

/// A regular expression of Oniguruma, the library of the reference. The number of backtracking
/// steps is limited, so that no pattern takes exponential time.
class ATTEND_API Regex {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 16;

  /// Throws InputError if the pattern is longer than kMaxBytes or is invalid.
  explicit Regex(std::string_view pattern);

  /// Calls `use` with the span of each match in `text`, which must be valid UTF-8, from left to
  /// right. Throws InputError if the searches take more steps than the budget.
  template <typename Use>
  void for_each_match(std::string_view text, StepBudget& budget, const Use& use) const {
    Search search(*this, text, budget);
    for (Span match{}; search.next(match);) use(match);
  }

 private:
  class Search {
   public:
    Search(const Regex& regex, std::string_view text, StepBudget& budget);
    bool next(Span& match);

   private:
    /// Returns the position of the next match in the text from `from_`, or an error code.
    int find();

    const Regex& regex_;
    StepBudget& budget_;
    std::size_t first_limit_;  // of the steps of the next search, which may be repeated with more
    std::string storage_;      // the text with known characters, if it has new ones
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t last_end_ = SIZE_MAX;  // of the last match
  };

  std::string pattern_;
  std::shared_ptr<re_pattern_buffer> compiled_;
};

}  // namespace attend::tokenizers
