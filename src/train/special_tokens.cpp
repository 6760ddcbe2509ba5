#include "train/special_tokens.h"

#include "attend/tokenizers/published_tokenizer.h"

#include <algorithm>

namespace attend::train {

std::vector<int64_t> SpecialTokens::around(const std::vector<int64_t>& text) const {
  auto tokens = before;
  tokens.insert(tokens.end(), text.begin(), text.end());
  tokens.insert(tokens.end(), after.begin(), after.end());
  return tokens;
}

SpecialTokens special_tokens_of(const Tokenizer& tokenizer) {
  const auto* published = dynamic_cast<const PublishedTokenizer*>(&tokenizer);
  if (published == nullptr) return {};
  const auto all = published->encode("a");
  const auto text = published->encode("a", {.add_special_tokens = false});
  // Not std::ranges::search, which clang 14 does not compile with libstdc++.
  const auto found = std::search(all.begin(), all.end(), text.begin(), text.end());
  const auto end = found == all.end() ? found : found + std::ssize(text);
  return {{all.begin(), found}, {end, all.end()}};
}

}  // namespace attend::train
