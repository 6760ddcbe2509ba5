#pragma once

#include "tokenizers/fields.h"
#include "tokenizers/token_table.h"
#include "tokenizers/tokenizer_json.h"
#include "tokenizers/word_cache.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attend::tokenizers {

/// Byte-pair encoding: joins the characters of a word, the pair of the earliest merge first.
class BpeModel {
 public:
  BpeModel(JsonFields& fields, TokenizerJson& json);

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const;
  const TokenTable& tokens() const { return tokens_; }

 private:
  struct Merge {
    uint64_t pair;  ///< ids of both tokens
    uint32_t rank;
    int32_t id;  ///< of the joined token
  };

  void read_merges(const TokenizerJson& json);
  const Merge* find_merge(int32_t first, int32_t second) const;
  /// Appends the tokens of the characters of `word`, before merges.
  void add_characters(std::string_view word, std::vector<int32_t>& ids) const;
  bool add_bytes(std::string_view text, std::vector<int32_t>& ids) const;
  void merge(std::vector<int32_t>& ids) const;

  TokenTable tokens_;
  std::vector<Merge> merges_;       // hash table by pair; a free slot has rank kNoRank
  std::string prefix_;              // of all characters but the first
  std::string suffix_;              // of the last character
  std::vector<int32_t> byte_ids_;   // of the tokens <0x00> to <0xFF>; -1 if missing
  std::vector<int32_t> ascii_ids_;  // of the tokens of one ASCII character; -1 if missing
  std::optional<std::string> unknown_;
  bool fuse_unknown_;
  bool byte_fallback_;
  bool ignore_merges_;
};

/// Splits a word into the longest tokens of the vocabulary, from left to right.
class WordPieceModel {
 public:
  WordPieceModel(JsonFields& fields, TokenizerJson& json);

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const;
  const TokenTable& tokens() const { return tokens_; }

 private:
  TokenTable tokens_;
  std::string unknown_;
  std::string prefix_;  // of all tokens of a word but the first
  std::size_t max_characters_;
  std::size_t longest_continuation_ = 0;  // of the tokens that begin with the prefix
};

/// Finds the tokens of a text with the largest sum of scores.
class UnigramModel {
 public:
  UnigramModel(JsonFields& fields, TokenizerJson& json);

  void tokenize(std::string_view text, std::vector<int32_t>& ids) const;
  const TokenTable& tokens() const { return tokens_; }

 private:
  /// Node of the trie of the tokens. The children of a node are neighbours, sorted by their bytes.
  struct Node {
    int32_t id = -1;
    uint32_t first_child = 0;
    uint16_t children = 0;
    unsigned char byte = 0;
  };

  void build_trie();
  /// Returns the child of a node for a byte, or 0.
  uint32_t child(uint32_t node, unsigned char byte) const;
  void add_text(std::string_view text, std::vector<int32_t>& ids) const;
  int32_t unknown_id(std::string_view text) const;

  TokenTable tokens_;
  std::vector<double> scores_;
  std::vector<Node> trie_;
  std::vector<uint32_t> root_;  // children of the root, by byte
  std::vector<int32_t> byte_ids_;
  double unknown_score_;
  std::optional<int32_t> unknown_;
};

/// One token per word.
class WordLevelModel {
 public:
  WordLevelModel(JsonFields& fields, TokenizerJson& json);

  void tokenize(std::string_view word, std::vector<int32_t>& ids) const;
  const TokenTable& tokens() const { return tokens_; }

 private:
  TokenTable tokens_;
  std::string unknown_;
};

using Model = std::variant<BpeModel, WordPieceModel, UnigramModel, WordLevelModel>;

/// Reads the key `model`. Moves the vocabulary out of `json`.
Model parse_model(JsonFields& root, TokenizerJson& json);

/// Returns the ids of the tokens <0x00> to <0xFF>; -1 for missing ones.
std::vector<int32_t> find_byte_tokens(const TokenTable& tokens);

[[noreturn]] void throw_missing_unknown(std::string_view unknown, std::string_view word);

}  // namespace attend::tokenizers
