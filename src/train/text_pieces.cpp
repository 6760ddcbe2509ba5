#include "train/text_pieces.h"

#include "attend/input_error.h"
#include "io/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace attend::train {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Returns a part of a file, without the incomplete lines at its ends or, if it has no whole line,
/// without the incomplete characters. `is_start`, `is_end`: true at the ends of the file.
std::string_view without_broken_lines(std::string_view part, bool is_start, bool is_end) {
  if (const auto first = part.find('\n'); first != part.npos) {
    const auto begin = is_start ? 0 : first + 1;
    const auto end = is_end ? part.size() : part.rfind('\n') + 1;
    if (begin < end || is_end) return part.substr(begin, end - begin);
  }
  while (!part.empty() && is_continuation(part.front())) part.remove_prefix(1);
  while (!part.empty() && is_continuation(part.back())) part.remove_suffix(1);
  if (!part.empty() && static_cast<unsigned char>(part.back()) >= 0xC0) part.remove_suffix(1);
  return part;
}

}  // namespace

void TextPieces::open() {
  const auto& path = paths_[index_];
  check_is_regular(path);
  file_ = open_to_read(path);
  rest_.clear();
  begin_ = {};
  is_open_ = true;
  fill();
  if (rest_.empty()) throw InputError(fmt::format("{}: the file is empty", path));
  rest_.erase(0, rest_.size() - without_byte_order_mark(rest_, path).size());
  fill();
}

void TextPieces::fill() {
  while (file_ && rest_.size() <= 2 * kMinBytes) {
    const auto size = rest_.size();
    rest_.resize(size + kMinBytes);
    file_.read(rest_.data() + size, static_cast<std::streamsize>(kMinBytes));
    rest_.resize(size + static_cast<std::size_t>(file_.gcount()));
  }
  if (file_.bad()) throw InputError(fmt::format("{}: cannot be read", paths_[index_]));
}

std::optional<TextPiece> TextPieces::next() {
  if (!is_open_) {
    if (index_ == paths_.size()) return std::nullopt;
    open();
  }
  const bool is_last = rest_.size() <= 2 * kMinBytes;
  const auto cut = is_last ? TextCut{rest_.size(), rest_.size()}
                           : cut_(std::string_view(rest_).substr(0, 2 * kMinBytes));
  TextPiece piece{.text = rest_.substr(0, cut.end),
                  .file = index_,
                  .begin = begin_,
                  .is_first = begin_.offset == 0,
                  .is_last = is_last};
  begin_ = position_in(rest_, cut.next, begin_);
  num_bytes_ += static_cast<int64_t>(cut.next);
  if (cut.next > 0) last_ = rest_[cut.next - 1];
  rest_.erase(0, cut.next);
  if (is_last) {
    is_open_ = false;
    ++index_;
    piece.adds_line_break = index_ < paths_.size() && last_ != '\n';
    if (piece.adds_line_break) last_ = '\n';
  } else {
    fill();
  }
  return piece;
}

std::string text_of(const TextPiece& piece, const std::string& path, const DataConfig& data) {
  if (text_encoding(data.tokenizer) == TextEncoding::utf8)
    check_is_text(piece.text, path, piece.begin);
  auto text = with_line_breaks(piece.text, data);
  if (piece.adds_line_break) text += '\n';
  return text;
}

TextCut cut_at_separator(std::string_view text) {
  constexpr auto kMin = TextPieces::kMinBytes;
  for (const char separator : {'\n', ' '}) {
    if (auto end = text.find(separator, kMin); end != text.npos) {
      end -= text[end - 1] == '\r' ? 1 : 0;
      return {end, end};
    }
  }
  auto end = kMin;
  // Inside of a code point. A text of bytes may have any number of such bytes.
  while (end < text.size() && is_continuation(text[end])) ++end;
  return {end, end};
}

std::string sample_of_texts(const std::vector<std::string>& paths, std::size_t bytes,
                            const DataConfig& data) {
  constexpr std::size_t kParts = 256;
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (const auto& path : paths) {
    sizes.push_back(std::filesystem::file_size(path));
    total += sizes.back();
  }
  const auto part_bytes = bytes / kParts;
  std::string sample;
  std::size_t begin = 0;  // of the file
  std::size_t part = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto file = open_to_read(paths[i]);
    for (; part < kParts; ++part) {
      const auto at = part * (total / kParts);
      if (at >= begin + sizes[i]) break;
      std::string text(part_bytes, '\0');
      file.clear();
      file.seekg(static_cast<std::streamoff>(at - begin));
      file.read(text.data(), static_cast<std::streamsize>(text.size()));
      text.resize(static_cast<std::size_t>(file.gcount()));
      const auto lines =
          without_broken_lines(text, at == begin, at + text.size() == begin + sizes[i]);
      sample += with_line_breaks(
          replace_invalid_utf8(at == begin ? without_byte_order_mark(lines, paths[i]) : lines),
          data);
      if (!sample.empty() && sample.back() != '\n') sample += '\n';
    }
    begin += sizes[i];
  }
  return sample;
}

}  // namespace attend::train
