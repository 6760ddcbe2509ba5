#pragma once

#include "attend/io/text_stream.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// Makes text of tokens as they come, and hands on what is certain of it.
class TokenStream {
 public:
  /// The text of a sequence of tokens. That of a longer one must begin with it.
  using Decode = std::function<std::string(const std::vector<int64_t>&)>;
  using Print = std::function<void(const std::string&)>;

  /// `before`: the token that the first one follows, if it continues something. See `TextStream`
  /// for `stops`.
  TokenStream(Decode decode, std::optional<int64_t> before, const std::vector<std::string>& stops,
              Print print);

  /// Returns whether the text goes on: no stop text has come.
  bool add(int64_t token);
  /// Hands on the rest.
  void finish();

  int64_t tokens() const { return tokens_; }
  const std::optional<std::string>& stopped_by() const { return stream_.stopped_by(); }

 private:
  Decode decode_;
  std::optional<int64_t> before_;
  TextStream stream_;
  Print print_;
  int64_t tokens_ = 0;
};

}  // namespace attend::app
