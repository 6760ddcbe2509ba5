#include "attend/train/subword_tokenizer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "byte_pairs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace attend::train {
namespace {

SubwordTokenizer::Merge read_merge(const nlohmann::json& merge) {
  if (merge.size() != 2 || !merge.at(0).is_number_integer() || !merge.at(1).is_number_integer()) {
    throw InputError("subwords: expected each merge to be the numbers of two tokens");
  }
  return {merge[0].get<int64_t>(), merge[1].get<int64_t>()};
}

}  // namespace

SubwordTokenizer::SubwordTokenizer(std::vector<Merge> merges) : merges_(std::move(merges)) {
  for (int64_t byte = 0; byte < kBytes; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
  for (const auto& [first, second] : merges_) {
    const auto place =
        fmt::format("subwords: merge {} of {} and {}", size() - kBytes, first, second);
    if (first < 0 || second < 0 || first >= size() || second >= size()) {
      throw InputError(fmt::format("{}: expected tokens in 0 to {}", place, size() - 1));
    }
    auto token =
        tokens_[static_cast<std::size_t>(first)] + tokens_[static_cast<std::size_t>(second)];
    if (token.size() > kLongestChunk) {
      throw InputError(fmt::format("{}: makes a token of {} bytes, expected at most {}", place,
                                   token.size(), kLongestChunk));
    }
    if (!joined_.emplace(pair_key(first, second), size()).second) {
      throw InputError(fmt::format("{}: stands twice", place));
    }
    tokens_.push_back(std::move(token));
  }
}

SubwordTokenizer SubwordTokenizer::learn(std::string_view text, int64_t size) {
  if (size < kBytes) {
    throw InputError(fmt::format(
        "a subword vocabulary of {} tokens is too small: expected at least {}", size, kBytes));
  }
  SubwordTokenizer tokenizer(learn_merges(text, size - kBytes));
  if (tokenizer.size() < size) {
    throw InputError(fmt::format(
        "a subword vocabulary of {} tokens is too large for this text: expected at most {}", size,
        tokenizer.size()));
  }
  return tokenizer;
}

SubwordTokenizer SubwordTokenizer::from_json(std::string_view json) {
  try {
    const auto parsed = nlohmann::json::parse(json);
    if (parsed.size() != 2 || parsed.at("unit") != "subword" || !parsed.at("merges").is_array()) {
      throw InputError(
          "subwords: expected the unit subword and a list of merges, and nothing else");
    }
    std::vector<Merge> merges;
    for (const auto& merge : parsed.at("merges")) merges.push_back(read_merge(merge));
    return SubwordTokenizer(std::move(merges));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not a subword tokenizer: {}", error.what()));
  }
}

std::string SubwordTokenizer::to_json() const {
  const nlohmann::ordered_json json{{"unit", "subword"}, {"merges", merges_}};
  return json.dump() + "\n";
}

std::vector<int64_t> SubwordTokenizer::encode_chunk(std::string_view chunk) const {
  std::vector<int64_t> ids;
  for (const char byte : chunk) ids.push_back(static_cast<unsigned char>(byte));
  for (;;) {
    auto earliest = std::numeric_limits<int64_t>::max();
    for (std::size_t i = 1; i < ids.size(); ++i) {
      const auto found = joined_.find(pair_key(ids[i - 1], ids[i]));
      if (found != joined_.end()) earliest = std::min(earliest, found->second);
    }
    if (earliest == std::numeric_limits<int64_t>::max()) return ids;
    const auto& [first, second] = merges_[static_cast<std::size_t>(earliest - kBytes)];
    join(ids, first, second, earliest);
  }
}

std::vector<int64_t> SubwordTokenizer::encode(std::string_view text) const {
  std::unordered_map<std::string_view, std::vector<int64_t>> known;  // most words are frequent ones
  std::vector<int64_t> ids;
  for (const auto chunk : split_chunks(text)) {
    const auto [place, is_new] = known.try_emplace(chunk);
    if (is_new) place->second = encode_chunk(chunk);
    ids.insert(ids.end(), place->second.begin(), place->second.end());
  }
  return ids;
}

std::string SubwordTokenizer::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) text += tokens_.at(static_cast<std::size_t>(id));
  return text;
}

std::string SubwordTokenizer::token(int64_t id) const {
  return printable(tokens_.at(static_cast<std::size_t>(id)));
}

std::map<std::string, std::string> SubwordTokenizer::files() const {
  return {{kTokenizerFile, to_json()}};
}

}  // namespace attend::train
