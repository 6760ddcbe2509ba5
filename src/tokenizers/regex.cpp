#include "tokenizers/regex.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/oniguruma.h"
#include "tokenizers/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace attend::tokenizers {
namespace {

/// Number of steps that each search may take without using the budget of the text.
constexpr std::size_t kFreeSteps = 512;
/// Factor by which the limit grows when a search is repeated.
constexpr std::size_t kLimitGrowth = 8;
constexpr unsigned kMaxStackEntries = 4'000'000;
constexpr std::size_t kShownBytes = 60;

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string message_of(int code, const OnigErrorInfo* info = nullptr) {
  const auto& onig = oniguruma();
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const int size = info != nullptr && info->par != nullptr
                       ? onig.onig_error_code_to_str(text.data(), code, info)
                       : onig.onig_error_code_to_str(text.data(), code);
  return {reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size)};
}

std::string shown_pattern(std::string_view pattern) {
  std::string text = printable(pattern.substr(0, kShownBytes));
  return pattern.size() > kShownBytes ? text + "..." : text;
}

/// Returns the pattern with the names of two classes replaced by what they contain in the version
/// of Oniguruma that the reference uses: punctuation includes symbols, and words exclude ² and ½.
std::string with_categories(std::string_view pattern) {
  std::string text(pattern);
  for (const auto& [name, contents] :
       {std::pair{"[:punct:]", "\\p{P}\\p{S}"}, std::pair{"[:^punct:]", "[^\\p{P}\\p{S}]"},
        std::pair{"\\p{Word}", "\\w"}, std::pair{"\\p{word}", "\\w"}, std::pair{"\\P{Word}", "\\W"},
        std::pair{"\\p{^Word}", "\\W"}}) {
    text = replace_all(text, name, contents);
  }
  return text;
}

/// Working memory of searches in this thread: creating it for each search would take longer than
/// most searches.
struct SearchMemory {
  OnigRegion* region = oniguruma().onig_region_new();
  OnigMatchParam* limits = oniguruma().onig_new_match_param();
  ~SearchMemory() {
    oniguruma().onig_region_free(region, 1);
    oniguruma().onig_free_match_param(limits);
  }
};

SearchMemory& search_memory() {
  thread_local SearchMemory memory;
  return memory;
}

}  // namespace

Regex::Regex(std::string_view pattern) : pattern_(pattern) {
  if (pattern.size() > kMaxBytes) {
    throw InputError(
        fmt::format("the regular expression is too long: found {} bytes, expected at most {}",
                    pattern.size(), kMaxBytes));
  }
  const auto& onig = oniguruma();
  const auto source = with_categories(pattern);
  OnigRegex compiled = nullptr;
  OnigErrorInfo info{};
  const int code = onig.onig_new(&compiled, bytes_of(source), bytes_of(source) + source.size(),
                                 ONIG_OPTION_NONE, onig.utf8, *onig.default_syntax, &info);
  if (code != ONIG_NORMAL) {
    throw InputError(fmt::format("expected a regular expression of Oniguruma, found '{}': {}",
                                 shown_pattern(pattern), message_of(code, &info)));
  }
  compiled_.reset(compiled, onig.onig_free);
}

Regex::Search::Search(const Regex& regex, std::string_view text, StepBudget& budget)
    : regex_(regex),
      budget_(budget),
      first_limit_(StepBudget::kStepsPerByte * text.size()),
      text_(text) {
  budget_.add_text(text.size());
  const auto needs_check =
      std::ranges::any_of(text, [](char byte) { return static_cast<unsigned char>(byte) >= 0xE0; });
  if (!needs_check) return;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const auto character = next_character(text, at);
    const auto known = known_to_regex(character);
    if (known == character) continue;
    if (storage_.empty()) storage_ = text;
    std::string replacement;
    append_character(replacement, known);
    std::ranges::copy(replacement, storage_.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  if (!storage_.empty()) text_ = storage_;
}

int Regex::Search::find() {
  const auto& onig = oniguruma();
  auto& memory = search_memory();
  const auto* begin = bytes_of(text_);
  const auto* end = begin + text_.size();
  // Oniguruma does not say how many steps a search took, only that it reached its limit. So a
  // search begins with a small limit, and uses the budget when it is repeated with a larger one.
  // The first searches of a text begin with large limits, whose sum is limited: most texts whose
  // searches take many steps are one long run of blanks.
  auto limit = std::max(kFreeSteps, first_limit_);
  first_limit_ /= 2;
  for (;;) {
    onig.onig_initialize_match_param(memory.limits);
    onig.onig_set_match_stack_limit_size_of_match_param(memory.limits, kMaxStackEntries);
    onig.onig_set_retry_limit_in_match_of_match_param(memory.limits, limit);
    onig.onig_set_retry_limit_in_search_of_match_param(memory.limits, limit);
    const int found =
        onig.onig_search_with_param(regex_.compiled_.get(), begin, end, begin + from_, end,
                                    memory.region, ONIG_OPTION_NONE, memory.limits);
    const bool reached_limit =
        found == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || found == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
    if (!reached_limit || budget_.left() <= 2 * limit) return found;
    budget_.spend(limit);
    limit = std::min(kLimitGrowth * limit, budget_.left());
  }
}

bool Regex::Search::next(Span& match) {
  const auto& memory = search_memory();
  while (from_ <= text_.size()) {
    const int found = find();
    if (found == ONIG_MISMATCH) {
      from_ = SIZE_MAX;
      return false;
    }
    if (found < 0) {
      throw InputError(fmt::format(
          "the regular expression '{}' takes too long for a text of {} bytes, expected at most {} "
          "steps for the whole text: {}",
          shown_pattern(regex_.pattern_), text_.size(), budget_.total(), message_of(found)));
    }
    const auto first = static_cast<std::size_t>(memory.region->beg[0]);
    const auto last = static_cast<std::size_t>(memory.region->end[0]);
    // An empty match right after the last match does not count.
    if (first == last && last == last_end_) {
      if (from_ >= text_.size()) return false;
      next_character(text_, from_);
      continue;
    }
    from_ = last_end_ = last;
    match = {first, last};
    return true;
  }
  return false;
}

}  // namespace attend::tokenizers
