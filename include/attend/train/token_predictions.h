#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/models/sequence_classifier.h"

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// Tokens of the words of a sentence.
struct EncodedWords {
  std::vector<int64_t> tokens;  ///< tokens of all words, with special tokens such as [CLS]
  /// Index in `tokens` of the first token of each word, which has the word's tag; -1 for a word
  /// without tokens. Words that were truncated are missing.
  std::vector<int64_t> first_tokens;
};

/// Returns the words between spaces and other white space.
ATTEND_API std::vector<std::string> split_words(std::string_view text);

/// Returns the tokens of words, each encoded by itself, at most `max_text_tokens(tokenizer,
/// max_tokens)`: the last ones are truncated. Throws InputError if the tokenizer cannot encode a
/// word.
ATTEND_API EncodedWords encode_words(const Tokenizer& tokenizer,
                                     const std::vector<std::string>& words, int64_t max_tokens);

/// Returns the probability of each tag of each word of sentences, (W, C) float32 on the CPU, where
/// W is the size of `first_tokens`. Words without tokens have the probabilities 0. Throws
/// c10::ValueError if the model is in training mode, or a sentence has no tokens.
///
///     auto words = encode_words(*run.tokenizer, {"Ada", "lives"}, run.recipe.max_seq_len());
///     auto tags = tag_probabilities(classifier, {words})[0].argmax(-1);  // (2)
ATTEND_API std::vector<torch::Tensor> tag_probabilities(SequenceClassifier& model,
                                                        const std::vector<EncodedWords>& sentences);

/// Returns the tokens of a text in which mask tokens, such as "[MASK]", are to be predicted. Throws
/// InputError if the tokenizer has no mask token or cannot encode the text, or if the text contains
/// no mask token.
ATTEND_API std::vector<int64_t> encode_masked(const Tokenizer& tokenizer, std::string_view text);

/// Returns the probability of each token in place of each mask token, (M, V) float32 on the CPU.
/// Tokens after the first max_seq_len are left out. Throws c10::ValueError if the model is in
/// training mode.
///
///     auto tokens = encode_masked(*run.tokenizer, "the [MASK] sat");
///     auto best = mask_probabilities(classifier, tokens,
///     *run.tokenizer->mask_token())[0].argmax();
ATTEND_API torch::Tensor mask_probabilities(SequenceClassifier& model,
                                            const std::vector<int64_t>& tokens, int64_t mask_token);

}  // namespace attend::train
