#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

namespace attend {

/// Tokenizer with one token per byte. Encodes any bytes; they need not be valid UTF-8.
///
///     ByteTokenizer().encode("é");  // {0xC3, 0xA9}
class ATTEND_API ByteTokenizer : public Tokenizer {
 public:
  /// Returns 256.
  int64_t size() const override { return 256; }
  /// Returns the value of each byte of `text`, in [0, 255].
  std::vector<int64_t> encode(std::string_view text) const override;
  /// Returns the bytes with the values `ids`. Throws std::out_of_range if an id is not in [0, 255].
  std::string decode(const std::vector<int64_t>& ids) const override;
  /// Returns one byte, escaped in hexadecimal if it is not printable.
  std::string token(int64_t id) const override;
  /// Returns one file: its name is kTokenizerFile and its content is `{"tokenizer": "byte"}`.
  std::map<std::string, std::string> files() const override;
};

}  // namespace attend
