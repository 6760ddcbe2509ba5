#pragma once

#include "attend/io/tokenizer.h"

namespace attend {

/// A token for each of the 256 bytes, so that any text, and anything else, can be encoded.
///
///     ByteTokenizer().encode("é") gives 0xC3, 0xA9
class ByteTokenizer : public Tokenizer {
 public:
  int64_t size() const override { return 256; }
  std::vector<int64_t> encode(std::string_view text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  std::string token(int64_t id) const override;
  /// `{"unit": "byte"}`.
  std::map<std::string, std::string> files() const override;
};

}  // namespace attend
