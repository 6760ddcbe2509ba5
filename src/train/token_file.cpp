#include "train/token_file.h"

#include "attend/input_error.h"
#include "attend/io/safetensors_header.h"
#include "io/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <ostream>
#include <utility>

namespace attend::train {
namespace {

constexpr const char* kTokens = "tokens";
constexpr std::string_view kTokenizerPrefix = "tokenizer/";
/// Size of the header, which is written at the end, when the number of tokens is known.
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;

constexpr std::array<std::pair<c10::ScalarType, const char*>, 3> kTokenDtypes{{
    {c10::ScalarType::Byte, "U8"},
    {c10::ScalarType::UInt16, "U16"},
    {c10::ScalarType::Int, "I32"},
}};

const char* dtype_name(c10::ScalarType dtype) {
  for (const auto& [type, name] : kTokenDtypes) {
    if (type == dtype) return name;
  }
  throw std::logic_error("not a dtype of token files");
}

/// Returns the dtype of the tokens. Throws InputError if they are not a vector of a dtype of token
/// files, or not aligned.
c10::ScalarType checked_dtype(const SafetensorsEntry& entry, uint64_t begin) {
  for (const auto& [type, name] : kTokenDtypes) {
    if (entry.dtype != name || entry.shape.size() != 1) continue;
    if (begin % c10::elementSize(type) == 0) return type;
    throw InputError(fmt::format("'{}' begins at byte {}, expected a multiple of {}", entry.name,
                                 begin, c10::elementSize(type)));
  }
  throw InputError(
      fmt::format("'{}' has the dtype {} and {} dimensions, expected U8, U16 or I32 and one",
                  entry.name, entry.dtype, entry.shape.size()));
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path) : file_(path) {
  with_source(path.string(), [&] {
    auto header = parse_safetensors_header(file_.bytes());
    metadata_ = std::move(header.metadata);
    bool has_tokens = false;
    for (const auto& entry : header.entries) {
      const auto begin = header.data_offset + entry.begin;
      const auto content = file_.bytes().substr(begin, entry.end - entry.begin);
      if (entry.name == kTokens) {
        dtype_ = checked_dtype(entry, begin);
        num_tokens_ = entry.shape.front();
        bytes_ = content;
        has_tokens = true;
      } else if (entry.name.starts_with(kTokenizerPrefix) && entry.dtype == "U8") {
        tokenizer_files_.emplace(entry.name.substr(kTokenizerPrefix.size()), content);
      } else {
        throw InputError(
            fmt::format("found the tensor '{}' with the dtype {}, expected '{}' and "
                        "files of a tokenizer",
                        entry.name, entry.dtype, kTokens));
      }
    }
    if (!has_tokens) throw InputError(fmt::format("expected the tensor '{}', found none", kTokens));
  });
}

void write_token_file(
    const std::filesystem::path& path, const Tokenizer& tokenizer, c10::ScalarType dtype,
    const std::function<std::map<std::string, std::string>(
        const std::function<void(std::string_view bytes)>& write)>& write_tokens) {
  const auto write_file = [&](std::ostream& file) {
    const std::string padding(kHeaderBytes, ' ');
    const auto append = [&](std::string_view bytes) {
      // Ends a tokenization of minutes as soon as the disk is full.
      if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
        throw std::runtime_error("a write failed");  // `write_stream` throws the reason
    };
    append(padding);
    uint64_t end = 0;
    nlohmann::ordered_json header;
    header["__metadata__"] = write_tokens([&](std::string_view bytes) {
      append(bytes);
      end += bytes.size();
    });
    const auto add = [&](const std::string& name, const char* type, uint64_t begin,
                         std::size_t element) {
      header[name] = {
          {"dtype", type}, {"shape", {(end - begin) / element}}, {"data_offsets", {begin, end}}};
    };
    add(kTokens, dtype_name(dtype), 0, c10::elementSize(dtype));
    for (const auto& [name, content] : tokenizer.files()) {
      append(content);
      const auto begin = std::exchange(end, end + content.size());
      add(std::string(kTokenizerPrefix) + name, "U8", begin, 1);
    }
    const auto text = header.dump();
    constexpr std::size_t kLengthSize = 8;
    if (text.size() > kHeaderBytes - kLengthSize) {
      throw InputError(
          fmt::format("the header of the token file has {} bytes, expected at most {}: "
                      "train on fewer files, or on files with shorter paths",
                      text.size(), kHeaderBytes - kLengthSize));
    }
    file.seekp(0);
    const uint64_t length = kHeaderBytes - kLengthSize;
    std::string start;
    for (unsigned shift = 0; shift < 64; shift += 8)
      start += static_cast<char>(length >> shift & 0xFF);
    append(start);
    append(text);
  };
  replace_files({new_file(path, write_file)});
}

}  // namespace attend::train
