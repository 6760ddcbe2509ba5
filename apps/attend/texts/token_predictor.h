#pragma once

#include "attend/train/run_directory.h"

#include <cstdint>
#include <string>

namespace attend::app {

/// Options of `TokenPredictor`.
struct TokenPredictorOptions {
  int64_t top = 1;  ///< number of tags or tokens per position; 0 = all
  bool json = false;
};

/// Predicts tokens of texts, and prints them: the tag of each word, or the tokens in place of the
/// mask tokens.
class TokenPredictor {
 public:
  /// `run`: of a task whose model predicts tokens.
  TokenPredictor(train::Run& run, const TokenPredictorOptions& options)
      : run_(run), options_(options) {}

  /// Predicts the tokens of a text, and prints them. Throws InputError if it cannot be encoded.
  void predict(const std::string& text);
  /// Prints how many texts were truncated, if any, to standard error.
  void print_unusual() const;

 private:
  std::string tags(const std::string& text);
  std::string masked_tokens(const std::string& text);

  train::Run& run_;
  TokenPredictorOptions options_;
  int64_t num_texts_ = 0;
  int64_t num_truncated_ = 0;
};

}  // namespace attend::app
