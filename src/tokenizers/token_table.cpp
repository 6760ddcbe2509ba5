#include "tokenizers/token_table.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace attend::tokenizers {

void TokenTable::add(std::string_view text, int64_t id) {
  if (id < 0 || id > kMaxId) {
    throw InputError(fmt::format("the id of the token '{}' is {}, expected 0 to {}",
                                 printable(text), id, kMaxId));
  }
  tokens_.push_back({static_cast<int32_t>(id), static_cast<uint32_t>(texts_.size()),
                     static_cast<uint32_t>(text.size())});
  texts_ += text;
  longest_ = std::max(longest_, text.size());
}

void TokenTable::finish(bool allows_equal_texts) {
  std::ranges::stable_sort(tokens_, {}, &Token::id);
  const auto equal = std::ranges::adjacent_find(tokens_, {}, &Token::id);
  if (equal != tokens_.end()) {
    throw InputError(
        fmt::format("the tokens '{}' and '{}' have the same id {}, expected different ids",
                    printable(text_of(*equal)), printable(text_of(equal[1])), equal->id));
  }
  slots_.assign(std::bit_ceil(2 * tokens_.size() + 2), 0);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    auto& slot = slots_[slot_of(text_of(tokens_[i]))];
    if (slot != 0 && !allows_equal_texts) {
      throw InputError(fmt::format("the token '{}' has two ids, {} and {}, expected one",
                                   printable(text_of(tokens_[i])), tokens_[slot - 1].id,
                                   tokens_[i].id));
    }
    slot = static_cast<uint32_t>(i + 1);
  }
}

std::size_t TokenTable::slot_of(std::string_view text) const {
  const auto mask = slots_.size() - 1;
  auto slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != 0 && text_of(tokens_[slots_[slot] - 1]) != text) slot = (slot + 1) & mask;
  return slot;
}

std::optional<int32_t> TokenTable::find(std::string_view text) const {
  if (text.size() > longest_ || slots_.empty()) return std::nullopt;
  const auto found = slots_[slot_of(text)];
  if (found == 0) return std::nullopt;
  return tokens_[found - 1].id;
}

std::optional<std::string_view> TokenTable::text(int64_t id) const {
  // Ids without gaps, from 0, are indices.
  if (id >= 0 && id < static_cast<int64_t>(tokens_.size()) &&
      tokens_[static_cast<std::size_t>(id)].id == id) {
    return text_of(tokens_[static_cast<std::size_t>(id)]);
  }
  const auto found = std::ranges::lower_bound(tokens_, id, {}, &Token::id);
  if (found == tokens_.end() || found->id != id) return std::nullopt;
  return text_of(*found);
}

}  // namespace attend::tokenizers
