#pragma once

#include "attend/api.h"
#include "attend/models/language_model.h"
#include "attend/models/sampling.h"
#include "attend/models/seq2seq.h"

#include <functional>
#include <optional>
#include <vector>

namespace attend {

/// A new token, the argument of `GenerationOptions::on_token`.
struct GeneratedToken {
  int64_t token = 0;     ///< token id
  int64_t sequence = 0;  ///< index of the sequence in the batch
};

/// Options of `generate` and `generate_batch`.
///
///     GenerationOptions{.max_new_tokens = 20, .sampling = {.temperature = 0.8, .top_k = 40}};
///     GenerationOptions{.eos_tokens = {0}, .num_beams = 4};
///     GenerationOptions{.min_new_tokens = 5, .eos_tokens = {0},
///                       .sampling = {.no_repeat_ngram_size = 3, .suppress_tokens = {7}}};
struct GenerationOptions {
  int64_t max_new_tokens = 200;  ///< maximum number of tokens to generate, >= 0
  /// Minimum number of tokens to generate, at most `max_new_tokens`: no stop token is generated
  /// before.
  int64_t min_new_tokens = 0;
  /// Stop tokens. A sequence ends at the first stop token. `GeneratedSequence::tokens` does not
  /// contain the stop token.
  std::vector<int64_t> eos_tokens = {};
  SamplingOptions sampling = {};  ///< how each token is sampled; temperature 0 = greedy decoding
  /// Seed of the sampling: sequence b of a batch is sampled with `seed + b`. If not set, LibTorch's
  /// global generator is used.
  std::optional<uint64_t> seed = std::nullopt;
  /// Number of beams, >= 1. 1 = no beam search. If greater than 1, beam search returns the sequence
  /// with the highest score. Beam search supports these sampling options: `repetition_penalty`,
  /// `no_repeat_ngram_size` and `suppress_tokens`.
  int64_t num_beams = 1;
  /// Beam search: the score of a sequence is the sum of the log-probabilities of its tokens,
  /// divided by length^length_penalty. Unlike `GeneratedSequence::log_probs`, these
  /// log-probabilities are computed after the repetition penalty is applied. Suppressed tokens do
  /// not change the log-probabilities of other tokens. The sum and the length include the stop
  /// token. A positive `length_penalty` favors longer sequences.
  double length_penalty = 1.0;
  bool return_log_probs = false;  ///< also return the log-probability of each token
  /// Called with each new token except stop tokens. If `on_token` returns false, the sequence ends
  /// with this token. Not supported by beam search.
  ///
  ///     GenerationOptions{.on_token = [](const GeneratedToken& t) { return t.token != 0; }};
  std::function<bool(const GeneratedToken&)> on_token = {};
};

/// A result of `generate`.
struct GeneratedSequence {
  std::vector<int64_t> tokens;  ///< new tokens, without the prompt and the stop token
  /// Log-probability (natural logarithm) of each token in `tokens`. If `eos_token` is set, the last
  /// element is the log-probability of this stop token. Computed from the model's logits, before
  /// the sampling options are applied. Empty unless `return_log_probs` is set.
  std::vector<double> log_probs = {};
  /// Stop token that ended the sequence; not set if `max_new_tokens` or `on_token` ended it.
  std::optional<int64_t> eos_token = std::nullopt;
};

/// Generates a continuation of `prompt`, without gradients, with a KV cache. By default, tokens are
/// sampled with temperature 1. Thread-safe: does not change the model.
///
/// If the prompt is longer than `config.max_seq_len`, the model sees only the last
/// `config.max_seq_len` tokens of the prompt. If the sequence exceeds this length during
/// generation, the oldest quarter of the context is dropped, and the keys and values of the rest
/// are recomputed with positions from 0. Exception: no tokens of prompt or sequence are dropped if
/// all layers have a sliding window of at most `config.max_seq_len` and the positions are neither
/// learned nor sinusoidal. The KV cache then overwrites the tokens outside of the window.
///
/// Throws c10::ValueError if the model is in training mode, if `prompt` is empty, or if an option
/// is out of range. Throws c10::Error if a logit is NaN or the largest logit is infinite.
///
///     model->eval();
///     auto tokens = generate(model, {7, 3}, {.max_new_tokens = 20, .seed = 1}).tokens;
ATTEND_API GeneratedSequence generate(const LanguageModel& model,
                                      const std::vector<int64_t>& prompt,
                                      const GenerationOptions& options = {});

/// Generates a continuation of each prompt; prompts may differ in length. Up to rounding, result b
/// equals the result of `generate` for prompt b with the seed `seed + b`.
///
///     auto results = generate_batch(model, {{7, 3}, {1, 4, 2}}, {.max_new_tokens = 20});
ATTEND_API std::vector<GeneratedSequence> generate_batch(
    const LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
    const GenerationOptions& options = {});

/// Special tokens of the target sequences of a `Seq2Seq`.
struct SequenceTokens {
  int64_t bos_token = 0;  ///< first token of the decoder's input
  int64_t eos_token = 0;  ///< end of sequence; may equal bos_token
};

/// Generates the target sequence for `source`, which may have at most `config.max_seq_len` tokens.
/// The sequence ends at `special_tokens.eos_token`, at one of `options.eos_tokens`, or after
/// min(max_new_tokens, config.max_seq_len) tokens. The repetition penalty and
/// `no_repeat_ngram_size` apply only to generated tokens. The other options have the same effect as
/// in `generate` for a `LanguageModel`, and the same errors are thrown.
///
///     auto target = generate(seq2seq, {4, 8, 2}, {.bos_token = 0, .eos_token = 1},
///                            {.num_beams = 4}).tokens;
ATTEND_API GeneratedSequence generate(const Seq2Seq& model, const std::vector<int64_t>& source,
                                      const SequenceTokens& special_tokens,
                                      const GenerationOptions& options = {});

/// Generates the target sequence for each source; sources may differ in length. Up to rounding,
/// result b equals the result of `generate` for source b with the seed `seed + b`.
///
///     auto targets = generate_batch(seq2seq, {{4, 8, 2}, {1}}, {.bos_token = 0, .eos_token = 1});
ATTEND_API std::vector<GeneratedSequence> generate_batch(
    const Seq2Seq& model, const std::vector<std::vector<int64_t>>& sources,
    const SequenceTokens& special_tokens, const GenerationOptions& options = {});

}  // namespace attend
