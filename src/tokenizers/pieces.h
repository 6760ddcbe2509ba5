#pragma once

#include "tokenizers/regex.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// Returns how many of the first `first_size` bytes of a text are in the part `span`.
inline std::size_t first_size_in(Span span, std::size_t first_size) {
  return std::clamp(first_size, span.begin, span.end) - span.begin;
}

/// A text that a normalizer changes.
struct NormalizedText {
  std::string text;
  StepBudget& budget;
  /// Number of bytes at the start of `text` that come from the first character of the encoded text.
  std::size_t first_size = 0;
};

/// Part of a text: an added token, or a text that the model will split into tokens.
struct Piece {
  std::size_t begin;  ///< in Pieces::text
  std::size_t end;
  int32_t id = -1;  ///< of an added token; -1 for other texts
  /// Number of bytes at the start of this text that come from the first character of the encoded
  /// text. Metaspace asks whether there are any.
  std::size_t first_size = 0;
};

/// Pieces of a text, from left to right. Their texts are in one string, so that no step allocates
/// memory for each piece.
struct Pieces {
  std::string text;
  std::vector<Piece> pieces;
  StepBudget budget;

  std::string_view text_of(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
  void append(std::string_view piece_text, int32_t id, std::size_t first_size) {
    const auto begin = text.size();
    text += piece_text;
    pieces.push_back({begin, text.size(), id, first_size});
  }

  /// Splits the texts. Calls `split(text, emit)`, which calls `emit` with the span of each new
  /// piece in `text`, from left to right. Empty spans are dropped.
  template <typename Split>
  void split_each(const Split& split) {
    std::vector<Piece> result;
    result.reserve(pieces.size() + text.size() / 4);
    for (const auto& piece : pieces) {
      if (piece.id >= 0) {
        result.push_back(piece);
        continue;
      }
      split(text_of(piece), [&](Span span) {
        if (span.begin == span.end) return;
        result.push_back({piece.begin + span.begin, piece.begin + span.end, -1,
                          first_size_in(span, piece.first_size)});
      });
    }
    pieces.swap(result);
  }

  /// Replaces the texts. The new text of a piece is `prefix(piece, text)` and what
  /// `append(text, result)` appends to `result` for each part of the text.
  template <typename Prefix, typename Append>
  void rewrite_each(const Prefix& prefix, const Append& append) {
    std::string result;
    result.reserve(text.size() + text.size() / 2);
    for (auto& piece : pieces) {
      if (piece.id >= 0) continue;
      const auto begin = result.size();
      const auto old_text = text_of(piece);
      result += prefix(piece, old_text);
      append(old_text.substr(0, piece.first_size), result);
      const auto first_end = piece.first_size > 0 ? result.size() : begin;
      append(old_text.substr(piece.first_size), result);
      piece.begin = begin;
      piece.end = result.size();
      piece.first_size = first_end - begin;
    }
    text.swap(result);
  }
};

}  // namespace attend::tokenizers
