#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// The normalization rules of SentencePiece, which T5, XLM-R and others use: a trie of texts, with
/// a replacement for each.
class PrecompiledCharsmap {
 public:
  /// `base64`: the size of the trie in bytes, the trie (a double array of darts-clone), and the
  /// replacements, which end with NUL. Throws InputError if the text is not of this form.
  explicit PrecompiledCharsmap(std::string_view base64);

  /// Returns the normalized text. Rules apply to grapheme clusters of less than 6 bytes, then to
  /// characters. As in the reference, the shortest matching text decides, and replaces the cluster.
  std::string normalized(std::string_view text) const;

 private:
  /// Sets `replacement` and returns true if a text in the trie is a prefix of `text`.
  bool find(std::string_view text, std::string_view& replacement) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace attend::tokenizers
