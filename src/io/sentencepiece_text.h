#pragma once

#include <array>
#include <cstddef>
#include <string_view>

// Splits text into sentences. SentencePiece is trained on these sentences, and encodes each of
// them. Private to src/io.
namespace attend {

/// Characters that SentencePiece treats specially: line break, U+2581 (its space), U+2585 (its
/// unknown character) and NUL. They are always encoded as bytes.
inline constexpr std::array<std::string_view, 4> kReservedCharacters{"\n", "\u2581", "\u2585",
                                                                     std::string_view("\0", 1)};

/// Maximum length of a sentence in bytes: SentencePiece silently ignores longer ones in training.
inline constexpr std::size_t kLongestSentence = 4192;

/// Returns the reserved character at the start of `text`, or an empty string.
inline std::string_view reserved_at_start(std::string_view text) {
  for (const auto reserved : kReservedCharacters) {
    if (text.starts_with(reserved)) return text.substr(0, reserved.size());
  }
  return {};
}

/// Returns the first sentence of `text`, which must not begin with a reserved character. The
/// sentence ends before the next reserved character. If it would exceed kLongestSentence bytes, it
/// ends before the last space that fits, since no token crosses a space. Without a space, it ends
/// between two characters.
inline std::string_view first_sentence(std::string_view text) {
  auto sentence = text.substr(0, kLongestSentence);
  for (const auto reserved : kReservedCharacters) {
    sentence = sentence.substr(0, sentence.find(reserved));
  }
  if (sentence.size() < kLongestSentence || sentence.size() == text.size()) return sentence;
  const auto space = sentence.rfind(' ');
  if (space != 0 && space != std::string_view::npos) return sentence.substr(0, space);
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  auto end = sentence.size();
  while (end > 1 && continues(end)) --end;
  return sentence.substr(0, end);
}

}  // namespace attend
