#pragma once

#include <array>
#include <cstddef>
#include <string_view>

// How a text is cut into what SentencePiece learns from and encodes.
namespace attend {

/// What SentencePiece takes for an end, or keeps for itself: line breaks, its space, its unknown
/// character and zeros. These are always encoded by their bytes.
inline constexpr std::array<std::string_view, 4> kReservedCharacters{"\n", "\u2581", "\u2585",
                                                                     std::string_view("\0", 1)};

/// Longer sentences it leaves out of what it learns from, without a word.
inline constexpr std::size_t kLongestSentence = 4192;

/// A reserved character, if the text begins with one, or else nothing.
inline std::string_view reserved_at_start(std::string_view text) {
  for (const auto reserved : kReservedCharacters) {
    if (text.starts_with(reserved)) return text.substr(0, reserved.size());
  }
  return {};
}

/// The first part of a text that begins with no reserved character: up to the next one, and no
/// longer than a sentence. A longer part is cut in front of a space, which no token reaches over,
/// or, where there is none, between two characters.
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
