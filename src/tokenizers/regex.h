#pragma once

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

/// A regular expression of Oniguruma, the library of the reference. The number of backtracking
/// steps of a search is limited, so that no pattern takes exponential time.
class Regex {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 16;

  /// Throws InputError if the pattern is longer than kMaxBytes or is invalid.
  explicit Regex(std::string_view pattern);

  /// Calls `use` with the span of each match in `text`, which must be valid UTF-8, from left to
  /// right. Throws InputError if a search takes too many steps.
  template <typename Use>
  void for_each_match(std::string_view text, const Use& use) const {
    Search search(*this, text);
    for (Span match{}; search.next(match);) use(match);
  }

 private:
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    bool next(Span& match);

   private:
    const Regex& regex_;
    std::string storage_;  // the text with known characters, if it has new ones
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t last_end_ = SIZE_MAX;  // of the last match
  };

  std::string pattern_;
  std::shared_ptr<re_pattern_buffer> compiled_;
};

}  // namespace attend::tokenizers
