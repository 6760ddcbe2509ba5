#pragma once

#include "attend/api.h"
#include "attend/io/utf8.h"
#include "attend/train/recipe.h"

#include <cstddef>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// End of the first piece of a text, and the beginning of the next one.
struct TextCut {
  std::size_t end;
  std::size_t next;  ///< `end`, or after a character that belongs to no piece
};

/// A part of the text of a file.
struct TextPiece {
  std::string text;              ///< as in the file, without a byte order mark
  std::size_t file = 0;          ///< index of the file
  TextPosition begin = {};       ///< position in the file
  bool is_first = false;         ///< true for the first piece of the file
  bool is_last = false;          ///< true for the last piece of the file
  bool adds_line_break = false;  ///< true if a line break follows that is not in the file
};

/// Reads the texts of files, which may be larger than the memory, in pieces of about 1 MiB. If a
/// text that another follows does not end with a line break, one is added, so that its last word
/// and the first of the next stay apart.
class ATTEND_API TextPieces {
 public:
  /// Pieces have at least this size in bytes, except the last one of a file, and at most twice.
  static constexpr std::size_t kMinBytes = std::size_t{1} << 20;

  /// `cut`: returns where the first piece of a text of 2 * kMinBytes bytes ends, in its second
  /// half.
  TextPieces(const std::vector<std::string>& paths,
             std::function<TextCut(std::string_view text)> cut)
      : paths_(paths), cut_(std::move(cut)) {}

  /// Returns the next piece, or nothing after the last one. Throws InputError if a file is missing,
  /// not a regular file, empty or UTF-16.
  std::optional<TextPiece> next();
  /// Number of bytes of the pieces.
  int64_t num_bytes() const { return num_bytes_; }

 private:
  void open();
  void fill();

  std::vector<std::string> paths_;
  std::function<TextCut(std::string_view)> cut_;
  std::size_t index_ = 0;  // of the file
  std::ifstream file_;
  std::string rest_;  // of the file, as far as it was read
  TextPosition begin_;
  bool is_open_ = false;
  char last_ = '\n';  // byte of the pieces
  int64_t num_bytes_ = 0;
};

/// Returns the text of a piece as the tasks see it: see `with_line_breaks`. Throws InputError, with
/// the position in the file, if it is not UTF-8, unless the tokenizer encodes bytes.
ATTEND_API std::string text_of(const TextPiece& piece, const std::string& path,
                               const DataConfig& data);

/// Returns the end of the first piece of a text of 2 * TextPieces::kMinBytes bytes: before a line
/// break or, if there is none, before a space or another character. CR LF is not split.
ATTEND_API TextCut cut_at_separator(std::string_view text);

/// Returns parts of texts, spread evenly, of together about `bytes` bytes. The parts consist of
/// whole lines, unless the lines are long. Invalid UTF-8 is replaced by U+FFFD.
ATTEND_API std::string sample_of_texts(const std::vector<std::string>& paths, std::size_t bytes,
                                       const DataConfig& data);

}  // namespace attend::train
