#include "token_stream.h"

#include <utility>

namespace attend::app {

TokenStream::TokenStream(Decode decode, std::optional<int64_t> before,
                         const std::vector<std::string>& stops, Print print)
    : decode_(std::move(decode)), before_(before), stream_(stops), print_(std::move(print)) {}

bool TokenStream::add(int64_t token) {
  // By itself a token may read otherwise: the space between words belongs to neither.
  const auto text =
      before_ ? decode_({*before_, token}).substr(decode_({*before_}).size()) : decode_({token});
  before_ = token;
  ++tokens_;
  print_(stream_.add(text));
  return !stopped_by();
}

void TokenStream::finish() {
  print_(stream_.finish());
}

}  // namespace attend::app
