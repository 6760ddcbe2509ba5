#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// The file of a run directory that tells what its tokens are: a JSON object with the key `unit`.
inline constexpr const char* kTokenizerFile = "tokenizer.json";

/// The way between text and the numbers of the tokens that a model knows, which begin at 0.
///
///     tokenizer.decode(tokenizer.encode("hole")) == "hole";
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// How many tokens there are.
  virtual int64_t size() const = 0;
  /// Throws InputError if the text holds what no token stands for, naming it.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// The text of these tokens, each in 0 .. size()-1; throws std::out_of_range otherwise.
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// One token for people to read: what cannot be printed stands as \x0a. Throws
  /// std::out_of_range as `decode` does.
  virtual std::string token(int64_t id) const = 0;
  /// What a run directory keeps of it: content by the name of the file. kTokenizerFile is one.
  virtual std::map<std::string, std::string> files() const = 0;
};

}  // namespace attend
