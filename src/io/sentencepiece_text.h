#pragma once

#include <array>
#include <cstddef>
#include <string_view>

// Splits text into sentences. SentencePiece is trained on these sentences, and encodes each
// sentence separately. Only files in src/io include this header.
namespace attend {

/// Characters that SentencePiece treats specially: line break, U+2581 (SentencePiece's symbol for a
/// space), U+2585 (SentencePiece's symbol for an unknown character) and NUL. The module encodes
/// each byte of these characters as one token.
inline constexpr std::array<std::string_view, 4> kReservedCharacters{"\n", "\u2581", "\u2585",
                                                                     std::string_view("\0", 1)};

/// Maximum length of a sentence in bytes. In training, SentencePiece silently ignores longer
/// sentences.
inline constexpr std::size_t kLongestSentence = 4192;

/// Returns the reserved character at the start of `text`, or an empty string.
inline std::string_view reserved_at_start(std::string_view text) {
  for (const auto reserved : kReservedCharacters) {
    if (text.starts_with(reserved)) return text.substr(0, reserved.size());
  }
  return {};
}

/// Returns the first sentence of `text`. `text` must not begin with a reserved character. The
/// sentence ends before the next reserved character or at the end of `text`. If `text` is longer
/// than kLongestSentence bytes and its first kLongestSentence bytes contain no reserved character,
/// the sentence ends before the last space in these bytes. This splits no token, since a space can
/// only be the first character of a token. If these bytes contain no space after the first
/// character, the sentence ends after the last complete UTF-8 character in these bytes.
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
