#include "train/text_tokens.h"

#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "io/files.h"
#include "train/checksum.h"
#include "train/text_pieces.h"
#include "train/token_file.h"
#include "train/tokenize_texts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "attend tokens 1";
constexpr const char* kMaskingFormat = "attend tokens 1 for masking";

/// Returns a tokenizer that has what `use` requires.
std::shared_ptr<const Tokenizer> tokenizer_for_use(std::shared_ptr<const Tokenizer> tokenizer,
                                                   const DataConfig& data, const TextUse& use) {
  if (!use.masking || tokenizer->mask_token()) return tokenizer;
  if (const auto* vocabulary = dynamic_cast<const Vocabulary*>(tokenizer.get()))
    return std::make_shared<Vocabulary>(vocabulary->with_token(kMaskToken));
  throw InputError(fmt::format(
      "the tokenizer {} has no mask token, expected character, word, or that of a published masked "
      "language model",
      to_string(data.tokenizer)));
}

/// Returns the size of files in bytes. Throws InputError if one is missing or not a regular file.
int64_t checked_size(const std::vector<std::string>& paths) {
  uint64_t size = 0;
  for (const auto& path : paths) {
    check_is_regular(path);
    size += fs::file_size(path);
  }
  return static_cast<int64_t>(size);
}

/// Lock of a file against other processes that use the same lock, until the end of the scope.
class TokenFileLock {
 public:
  /// Waits for the lock. A file system without locks has none: then each process writes the file.
  explicit TokenFileLock(const fs::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) throw_unwritable(path, errno);
    while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~TokenFileLock() { ::close(file_); }
  TokenFileLock(const TokenFileLock&) = delete;
  TokenFileLock& operator=(const TokenFileLock&) = delete;

 private:
  int file_;
};

/// The texts of a token file, and where it is.
class TokenFileKey {
 public:
  /// `tokenizer`: may be null.
  TokenFileKey(const std::vector<std::string>& paths, const DataConfig& data,
               const Tokenizer* tokenizer, const TextUse& use)
      : folder_(data.token_dir.empty() ? default_token_dir() : fs::path(data.token_dir)) {
    auto texts = nlohmann::json::array();
    std::string names;
    for (const auto& path : paths) {
      const auto absolute = fs::absolute(path).lexically_normal().string();
      const auto changed = fs::last_write_time(path).time_since_epoch().count();
      texts.push_back({absolute, fs::file_size(path), changed});
      names += absolute + '\n';
    }
    // Paths need not be UTF-8.
    values_ = {{"format", use.masking ? kMaskingFormat : kFormat},
               {"texts", texts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)},
               {"keep_carriage_returns", data.keep_carriage_returns ? "true" : "false"},
               {"tokenizer", fmt::format("{} {} {}", to_string(data.tokenizer), data.vocab_size,
                                         to_string(data.unknown))}};
    const auto stem = fs::path(paths.front()).stem().string().substr(0, 100);
    const auto path_of = [&](const std::string& last) {
      const auto key = names + values_.at("keep_carriage_returns") + '\n' + last +
                       (use.masking ? kMaskingFormat : "");
      return folder_ / fmt::format("{}-{}.safetensors", stem, checksum_text(crc32c(key)));
    };
    if (data.tokenizer != TokenizerKind::published) paths_.push_back(path_of(values_["tokenizer"]));
    if (tokenizer == nullptr) return;
    std::string files;
    for (const auto& [name, content] : tokenizer->files()) files += name + '\0' + content + '\0';
    paths_.push_back(path_of(files));
  }

  /// Returns a token file of the same texts with the tokenizer or, if it is null, with one that was
  /// made with the same options. A file that cannot be read does not count.
  std::optional<std::pair<std::shared_ptr<TokenFile>, fs::path>> find(
      const Tokenizer* tokenizer) const {
    for (const auto& path : paths_) {
      if (!fs::exists(path)) continue;
      try {
        auto file = std::make_shared<TokenFile>(path);
        const auto& found = file->metadata();
        const auto is_equal = [&](const auto& each) {
          return (tokenizer != nullptr && each.first == "tokenizer") ||
                 (found.contains(each.first) && found.at(each.first) == each.second);
        };
        if (!std::ranges::all_of(values_, is_equal)) continue;
        if (tokenizer != nullptr && file->tokenizer_files() != tokenizer->files()) continue;
        return std::pair(std::move(file), path);
      } catch (const InputError&) {
        continue;  // is written again
      }
    }
    return std::nullopt;
  }

  /// Where a new file is written: the place for its tokenizer.
  const fs::path& new_path() const { return paths_.back(); }
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  fs::path folder_;
  std::map<std::string, std::string> values_;
  std::vector<fs::path> paths_;
};

/// Returns the whole texts, as a tokenizer is made from them.
std::string read_texts(const std::vector<std::string>& paths, const DataConfig& data) {
  std::string texts;
  TextPieces pieces(paths, cut_at_separator);
  while (const auto piece = pieces.next()) texts += text_of(*piece, paths[piece->file], data);
  return texts;
}

/// Returns a tokenizer made from texts that are larger than the memory.
std::unique_ptr<Tokenizer> make_tokenizer_of_large(const std::vector<std::string>& paths,
                                                   const DataConfig& data) {
  if (data.tokenizer == TokenizerKind::character) {
    std::vector<bool> seen(0x110000);
    TextPieces pieces(paths, cut_at_separator);
    while (const auto piece = pieces.next()) {
      const auto text = text_of(*piece, paths[piece->file], data);
      for (auto at = text.begin(); at != text.end();) seen[utf8::unchecked::next(at)] = true;
    }
    std::string characters;
    for (uint32_t code = 0; code < seen.size(); ++code) {
      if (seen[code]) utf8::append(code, std::back_inserter(characters));
    }
    return make_tokenizer(data.tokenizer, characters, data.vocab_size, data.unknown);
  }
  if (data.tokenizer == TokenizerKind::word && data.vocab_size == 0) {
    throw InputError(fmt::format(
        "`vocab_size` is 0 (no limit), expected a number of words for a text of more than "
        "{} bytes, whose vocabulary is made from a sample",
        data.max_text_bytes));
  }
  std::string text;
  if (data.tokenizer != TokenizerKind::byte) {
    text = checked_size(paths) <= static_cast<int64_t>(kTokenizerSampleBytes)
               ? read_texts(paths, data)
               : sample_of_texts(paths, kTokenizerSampleBytes, data);
  }
  return make_tokenizer(data.tokenizer, text, data.vocab_size, data.unknown);
}

/// Returns the tokens of a file, which the tensor keeps mapped.
TextTokens tokens_in(std::shared_ptr<TokenFile> file, const fs::path& path,
                     std::shared_ptr<const Tokenizer> tokenizer, const char* what) {
  if (tokenizer == nullptr)
    tokenizer =
        with_source(path.string(), [&] { return parse_tokenizer(file->tokenizer_files()); });
  if (file->dtype() != token_dtype(*tokenizer)) {
    throw InputError(fmt::format("{}: found tokens of the dtype {}, expected {}; remove the file",
                                 path.string(), c10::toString(file->dtype()),
                                 c10::toString(token_dtype(*tokenizer))));
  }
  const auto value = [&](const char* key) {
    const auto found = file->metadata().find(key);
    return found == file->metadata().end() ? std::string() : found->second;
  };
  const auto bytes = value("num_bytes");
  TextTokens tokens{
      .ids = {},
      .tokenizer = std::move(tokenizer),
      .checksum = value("checksum"),
      .note = fmt::format("{} {} in {}", file->num_tokens(), what, printable(path.string()))};
  std::from_chars(bytes.data(), bytes.data() + bytes.size(), tokens.num_bytes);
  // The tensor is never written to; the mapping would not allow it.
  tokens.ids = torch::from_blob(
      const_cast<char*>(file->bytes().data()), {file->num_tokens()}, [file](void*) {},
      torch::TensorOptions(file->dtype()));
  return tokens;
}

/// Calls `write`. Errors also say how to choose another directory.
template <typename Write>
void with_advice(const Write& write) {
  try {
    write();
  } catch (const InputError&) {
    throw;
  } catch (const std::runtime_error& error) {  // such as a full disk
    throw std::runtime_error(
        fmt::format("{}; set another directory with `token_dir`", error.what()));
  }
}

/// Returns the tokens of texts in a file, which is written if it does not exist.
TextTokens tokens_in_file(const std::vector<std::string>& paths, const DataConfig& data,
                          std::shared_ptr<const Tokenizer> tokenizer, const TextUse& use) {
  const TokenFileKey key(paths, data, tokenizer.get(), use);
  if (auto found = key.find(tokenizer.get()))
    return tokens_in(found->first, found->second, std::move(tokenizer), "tokens");
  const auto path = key.new_path();
  std::optional<TokenFileLock> lock;
  with_advice([&] {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) throw_unwritable(path.parent_path(), error.value());
    lock.emplace(path.string() + ".lock");
  });
  if (auto found = key.find(tokenizer.get()))  // another process has written it
    return tokens_in(found->first, found->second, std::move(tokenizer), "tokens");
  if (tokenizer == nullptr)
    tokenizer = tokenizer_for_use(make_tokenizer_of_large(paths, data), data, use);
  with_advice([&] {
    write_token_file(path, *tokenizer, token_dtype(*tokenizer), [&](const auto& write) {
      const auto texts = tokenize_texts(paths, data, *tokenizer, use, write);
      if (TokenFileKey(paths, data, nullptr, use).values() != key.values()) {
        throw InputError(
            fmt::format("{}: a text was changed while it was read: start again", paths.front()));
      }
      auto metadata = key.values();
      metadata["checksum"] = checksum_text(texts.checksum);
      metadata["num_bytes"] = fmt::format("{}", texts.num_bytes);
      return metadata;
    });
  });
  return tokens_in(std::make_shared<TokenFile>(path), path, std::move(tokenizer), "new tokens");
}

}  // namespace

TextTokens tokens_of_texts(const std::vector<std::string>& paths, const DataConfig& data,
                           std::shared_ptr<const Tokenizer> tokenizer, const TextUse& use) {
  if (tokenizer != nullptr) tokenizer = tokenizer_for_use(std::move(tokenizer), data, use);
  if (checked_size(paths) > data.max_text_bytes) {
    auto tokens = tokens_in_file(paths, data, std::move(tokenizer), use);
    tokens.tokenizer = tokenizer_for_use(tokens.tokenizer, data, use);  // the file may be damaged
    return tokens;
  }
  if (tokenizer == nullptr) {
    const auto text = read_texts(paths, data);
    tokenizer = tokenizer_for_use(
        make_tokenizer(data.tokenizer, text, data.vocab_size, data.unknown), data, use);
  }
  const auto bytes = std::make_shared<std::string>();
  const auto texts = tokenize_texts(paths, data, *tokenizer, use,
                                    [&](std::string_view piece) { *bytes += piece; });
  const auto dtype = token_dtype(*tokenizer);
  const auto count = static_cast<int64_t>(bytes->size() / c10::elementSize(dtype));
  return {.ids = torch::from_blob(
              bytes->data(), {count}, [bytes](void*) {}, torch::TensorOptions(dtype)),
          .tokenizer = std::move(tokenizer),
          .checksum = checksum_text(texts.checksum),
          .num_bytes = texts.num_bytes};
}

torch::Tensor TextTokens::at(const torch::Tensor& index) const {
  const auto found = ids.index({index}).to(torch::kLong);
  if (found.numel() == 0) return found;
  const auto [first, last] = found.aminmax();
  const auto low = first.item<int64_t>();
  const auto high = last.item<int64_t>();
  if (low >= 0 && high < tokenizer->size()) return found;
  throw InputError(fmt::format("found token {}, expected 0 to {}: remove the damaged file of {}",
                               low < 0 ? low : high, tokenizer->size() - 1, note));
}

torch::Tensor TextTokens::random_windows(int64_t count, int64_t length, Sampler& sampler) const {
  const auto starts = torch::randint(ids.size(0) - length + 1, {count, 1}, sampler.generator(),
                                     torch::TensorOptions(torch::kLong));
  return at(starts + torch::arange(length));
}

fs::path default_token_dir() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? fs::path() : fs::path(value);
  };
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute())
    return cache / "attend" / "tokens";
  if (const auto home = variable("HOME"); !home.empty())
    return home / ".cache" / "attend" / "tokens";
  throw InputError(
      "a text larger than `max_text_bytes` needs a directory for its tokens, and $HOME is not set: "
      "set `token_dir`");
}

}  // namespace attend::train
