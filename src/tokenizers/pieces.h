#pragma once

#include "tokenizers/regex.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// A text that a normalizer changes.
struct NormalizedText {
  std::string text;
  StepBudget& budget;
  /// False if the first character of `text` comes from a later place of the original text, because
  /// the characters before it were removed.
  bool begins_at_start = true;
};

/// Part of a text: an added token, or a text that the model will split into tokens.
struct Piece {
  std::size_t begin;  ///< in Pieces::text
  std::size_t end;
  int32_t id = -1;        ///< of an added token; -1 for other texts
  bool is_first = false;  ///< at the start of the encoded text, which Metaspace needs to know
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
  void append(std::string_view piece_text, int32_t id, bool is_first) {
    const auto begin = text.size();
    text += piece_text;
    pieces.push_back({begin, text.size(), id, is_first});
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
                          piece.is_first && span.begin == 0});
      });
    }
    pieces.swap(result);
  }

  /// Replaces the texts. Calls `append(piece, text, result)`, which appends the new text of the
  /// piece to `result`.
  template <typename Append>
  void rewrite_each(const Append& append) {
    std::string result;
    result.reserve(text.size() + text.size() / 2);
    for (auto& piece : pieces) {
      if (piece.id >= 0) continue;
      const auto begin = result.size();
      append(piece, text_of(piece), result);
      piece.begin = begin;
      piece.end = result.size();
    }
    text.swap(result);
  }
};

}  // namespace attend::tokenizers
