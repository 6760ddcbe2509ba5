#pragma once

#include "attend/io/text_stream.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// Decodes tokens as they are generated, and prints their text. Text that may be the start of a
/// stop text, and the bytes of an incomplete UTF-8 character, are buffered.
class TokenStream {
 public:
  /// Decodes a sequence of tokens. When a token is appended to a sequence, the text of the longer
  /// sequence must begin with the text of the shorter one.
  using Decode = std::function<std::string(const std::vector<int64_t>&)>;
  using Print = std::function<void(const std::string&)>;

  /// `previous`: the token before the first added token, if any. `stops`: see `TextStream`.
  TokenStream(Decode decode, std::optional<int64_t> previous, const std::vector<std::string>& stops,
              Print print);

  /// Adds a token; returns false once a stop text was found.
  bool add(int64_t token);
  /// Prints the buffered text.
  void finish();

  int64_t tokens() const { return tokens_; }
  const std::optional<std::string>& stopped_by() const { return stream_.stopped_by(); }

 private:
  Decode decode_;
  std::optional<int64_t> previous_;
  TextStream stream_;
  Print print_;
  int64_t tokens_ = 0;
};

}  // namespace attend::app
