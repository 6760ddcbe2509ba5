#include "attend/io/text_stream.h"

#include "attend/input_error.h"

#include <algorithm>
#include <utility>

namespace attend {
namespace {

/// Returns the length in bytes of a UTF-8 character whose first byte is `byte`, or 0 if no UTF-8
/// character begins with `byte`.
std::size_t character_length(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte <= 0xDF) return 2;
  if (byte >= 0xE0 && byte <= 0xEF) return 3;
  if (byte >= 0xF0 && byte <= 0xF4) return 4;
  return 0;
}

/// Returns the length in bytes of an incomplete UTF-8 character at the end of `text`, or 0 if
/// `text` does not end with an incomplete character.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    const bool continues = (byte & 0xC0U) == 0x80U;
    if (!continues) return character_length(byte) > length ? length : 0;
  }
  return 0;
}

/// Returns the length of the longest suffix of `text` that is a proper prefix of `stop`.
std::size_t unfinished_stop(std::string_view text, std::string_view stop) {
  auto length = std::min(text.size(), stop.size() - 1);
  while (!text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const auto& stop : stops_) {
    if (stop.empty()) throw InputError("stop sequences must not be empty");
  }
}

std::string TextStream::add(std::string_view piece) {
  if (stopped_by_) return {};
  waiting_ += piece;
  std::size_t end = std::string::npos;
  for (const auto& stop : stops_) {
    const auto begin = waiting_.find(stop);
    if (begin == std::string::npos) continue;
    const bool longer = stopped_by_ && stop.size() > stopped_by_->size();
    if (begin + stop.size() < end || (begin + stop.size() == end && longer)) {
      end = begin + stop.size();
      stopped_by_ = stop;
    }
  }
  if (stopped_by_) return release(end - stopped_by_->size());
  auto uncertain = unfinished_character(waiting_);
  for (const auto& stop : stops_) uncertain = std::max(uncertain, unfinished_stop(waiting_, stop));
  return release(waiting_.size() - uncertain);
}

std::string TextStream::finish() {
  return stopped_by_ ? std::string() : release(waiting_.size());
}

std::string TextStream::release(std::size_t bytes) {
  auto text = waiting_.substr(0, bytes);
  waiting_.erase(0, bytes);
  return text;
}

}  // namespace attend
