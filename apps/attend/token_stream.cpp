#include "token_stream.h"

#include <utility>

namespace attend::app {

TokenStream::TokenStream(Decode decode, std::optional<int64_t> previous,
                         const std::vector<std::string>& stops, Print print)
    : decode_(std::move(decode)), previous_(previous), stream_(stops), print_(std::move(print)) {}

bool TokenStream::add(int64_t token) {
  // Decodes the new token together with the previous token: otherwise, the text would lack the
  // space between two words.
  const auto text = previous_ ? decode_({*previous_, token}).substr(decode_({*previous_}).size())
                              : decode_({token});
  previous_ = token;
  ++tokens_;
  print_(stream_.add(text));
  return !stopped_by();
}

void TokenStream::finish() {
  print_(stream_.finish());
}

}  // namespace attend::app
