#include "train/tokenize_texts.h"

#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "train/checksum.h"
#include "train/special_tokens.h"
#include "train/text_pieces.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace attend::train {
namespace {

template <typename Ids>
std::string bytes_of_ids(const Ids& ids, c10::ScalarType dtype) {
  std::string bytes(ids.size() * c10::elementSize(dtype), '\0');
  const auto fill = [&]<typename T>(T /*type*/) {
    auto* to = bytes.data();
    for (const auto id : ids) {
      const auto narrow = static_cast<T>(id);
      std::memcpy(to, &narrow, sizeof(T));
      to += sizeof(T);
    }
  };
  switch (dtype) {
    case c10::ScalarType::Byte:
      fill(uint8_t());
      break;
    case c10::ScalarType::UInt16:
      fill(uint16_t());
      break;
    default:
      fill(int32_t());
  }
  return bytes;
}

/// True if the tokens of `before`, `between` and `after`, as one text, are those of `before` and
/// those of `after`.
bool splits_tokens(const PublishedTokenizer& tokenizer, std::string_view before,
                   std::string_view between, std::string_view after, const DataConfig& data) {
  const auto ids_of = [&](std::string_view text) {
    return tokenizer.token_ids(with_line_breaks(std::string(text), data));
  };
  std::string whole(before);
  whole += between;
  whole += after;
  auto parts = ids_of(before);
  const auto last = ids_of(after);
  parts.insert(parts.end(), last.begin(), last.end());
  return ids_of(whole) != parts;
}

/// Returns where to cut a text of 2 * TextPieces::kMinBytes bytes for a published tokenizer: at a
/// line break or a space after a word, if the tokens around it do not change. Some tokenizers add a
/// space to the beginning of a text: a piece then begins after a space of the text.
TextCut cut_for(const PublishedTokenizer& tokenizer, std::string_view text,
                const DataConfig& data) {
  constexpr std::size_t kContext = 256;  // bytes on each side whose tokens are compared
  constexpr int kMaxTrials = 16;
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto is_blank = [&](char byte) { return kBlanks.find(byte) != kBlanks.npos; };
  const auto is_inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  for (const auto& [separator, skipped] : {std::pair('\n', 0), {' ', 0}, {' ', 1}}) {
    auto at = TextPieces::kMinBytes;
    for (int i = 0; i < kMaxTrials; ++i, ++at) {
      at = text.find(separator, at);
      while (at != text.npos && is_blank(text[at - 1])) at = text.find(separator, at + 1);
      if (at == text.npos || at + kContext + 4 > text.size()) break;
      auto begin = at - kContext;
      while (is_inside(begin)) ++begin;
      auto end = at + kContext;
      while (end < text.size() && is_inside(end)) ++end;  // bytes that are not UTF-8
      const auto next = at + static_cast<std::size_t>(skipped);
      if (!splits_tokens(tokenizer, text.substr(begin, at - begin), text.substr(at, next - at),
                         text.substr(next, end - next), data))
        return {at, next};
    }
  }
  return cut_at_separator(text);
}

/// Encodes pieces of texts.
class PieceEncoder {
 public:
  PieceEncoder(const Tokenizer& tokenizer, const DataConfig& data, bool add_special_tokens)
      : tokenizer_(tokenizer),
        published_(dynamic_cast<const PublishedTokenizer*>(&tokenizer)),
        data_(data),
        dtype_(token_dtype(tokenizer)) {
    if (!add_special_tokens) return;
    const auto special = special_tokens_of(tokenizer);
    first_ = bytes_of_ids(special.before, dtype_);
    last_ = bytes_of_ids(special.after, dtype_);
  }

  /// Returns the tokens of a piece with the text `text`.
  std::string encode(const TextPiece& piece, std::string_view text) const {
    if (published_ == nullptr) return bytes_of_ids(tokenizer_.encode(text), dtype_);
    auto bytes = piece.is_first ? first_ : std::string();
    bytes += bytes_of_ids(published_->token_ids(text), dtype_);
    if (piece.is_last) bytes += last_;
    return bytes;
  }

  TextCut cut(std::string_view text) const {
    return published_ == nullptr ? cut_at_separator(text) : cut_for(*published_, text, data_);
  }

 private:
  const Tokenizer& tokenizer_;
  const PublishedTokenizer* published_;
  const DataConfig& data_;
  c10::ScalarType dtype_;
  std::string first_, last_;
};

/// Calls functions on several threads for items that one of them reads at a time: `read` returns an
/// item or nothing, `compute` its result, and `write` is called with item and result, in the order
/// of the items. Throws the first exception of a function, also in this order. Each thread has one
/// item at a time.
template <typename Read, typename Compute, typename Write>
void process_in_order(int64_t threads, const Read& read, const Compute& compute,
                      const Write& write) {
  std::mutex read_mutex;
  std::mutex write_mutex;
  std::condition_variable written;
  int64_t num_read = 0;
  int64_t num_written = 0;
  std::exception_ptr error;
  bool failed = false;
  const auto work = [&] {
    for (;;) {
      decltype(read()) item;
      int64_t index = 0;
      std::exception_ptr failure;
      {
        const std::lock_guard lock(read_mutex);
        if (failed) return;
        index = num_read++;
        try {
          item = read();
          if (!item) return;
        } catch (...) {
          failure = std::current_exception();
        }
      }
      decltype(compute(*item)) result;
      try {
        if (!failure) result = compute(*item);
      } catch (...) {
        failure = std::current_exception();
      }
      std::unique_lock lock(write_mutex);
      written.wait(lock, [&] { return num_written == index || error != nullptr; });
      if (error != nullptr) return;
      try {
        if (failure) std::rethrow_exception(failure);
        write(*item, std::move(result));
        ++num_written;
      } catch (...) {
        error = std::current_exception();
      }
      written.notify_all();
      if (error == nullptr) continue;
      lock.unlock();
      const std::lock_guard stop(read_mutex);
      failed = true;
      return;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace

c10::ScalarType token_dtype(const Tokenizer& tokenizer) {
  const auto size = tokenizer.size();
  if (size <= 256) return c10::ScalarType::Byte;
  return size <= 65536 ? c10::ScalarType::UInt16 : c10::ScalarType::Int;
}

TokenizedTexts tokenize_texts(const std::vector<std::string>& paths, const DataConfig& data,
                              const Tokenizer& tokenizer, const TextUse& use,
                              const std::function<void(std::string_view bytes)>& write) {
  struct Encoded {
    std::string text;
    std::string tokens;
  };
  int64_t size = 0;
  for (const auto& path : paths) {
    std::error_code unknown;
    const auto bytes = std::filesystem::file_size(path, unknown);
    if (!unknown) size += static_cast<int64_t>(bytes);
  }
  const PieceEncoder encoder(tokenizer, data, /*add_special_tokens=*/!use.masking);
  TextPieces pieces(paths, [&](std::string_view text) { return encoder.cut(text); });
  TokenizedTexts result;
  int64_t done = 0;
  const auto encode = [&](const TextPiece& piece) -> Encoded {
    const auto& path = paths[piece.file];
    auto text = text_of(piece, path, data);
    return with_source(path, [&] {
      return changing_unknown_token(use.can_change ? &UnknownTokenError::with_options
                                                   : &UnknownTokenError::with_fixed_tokenizer,
                                    [&] {
                                      try {
                                        auto tokens = encoder.encode(piece, text);
                                        return Encoded{std::move(text), std::move(tokens)};
                                      } catch (const UnknownTokenError& error) {
                                        throw error.in_text(piece.begin);
                                      }
                                    });
    });
  };
  process_in_order(
      at::get_num_threads(), [&] { return pieces.next(); }, encode,
      [&](const TextPiece& piece, const Encoded& encoded) {
        result.checksum = crc32c(encoded.text, result.checksum);
        write(encoded.tokens);
        done += static_cast<int64_t>(piece.text.size());
        if (data.on_tokenized != nullptr) data.on_tokenized(done, size);
      });
  result.num_bytes = pieces.num_bytes();
  return result;
}

}  // namespace attend::train
