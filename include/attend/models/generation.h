#pragma once

#include "attend/api.h"
#include "attend/models/language_model.h"
#include "attend/models/sampling.h"
#include "attend/models/seq2seq.h"

#include <functional>
#include <optional>
#include <vector>

namespace attend {

/// Options of `generate`.
///
///     GenerationOptions{.max_new_tokens = 20, .sampling = {.temperature = 0.8, .top_k = 40}}
struct GenerationOptions {
  int64_t max_new_tokens = 200;   ///< maximum number of tokens to generate, >= 0
  SamplingOptions sampling = {};  ///< how each token is sampled; temperature 0 = greedy decoding
};

/// Generates a continuation of `prompt` and returns the new tokens. Runs in eval mode, without
/// gradients, with a KV cache. If the sequence is longer than `config.max_seq_len`, the model sees
/// its last `max_seq_len` tokens only.
///
/// `generator` is a CPU generator; by default LibTorch's global one is used. `on_token`, if given,
/// is called with each new token; generation stops when it returns false, and the result includes
/// that token. Throws c10::ValueError if `prompt` is empty or an option is out of range, and
/// c10::Error if the logits are not finite.
///
///     auto tokens = generate(model, {7, 3}, {.max_new_tokens = 20});
///     generate(model, {7, 3}, {}, {}, [](int64_t token) { return token != 0; });  // stop at 0
ATTEND_API std::vector<int64_t> generate(
    LanguageModel& model, std::vector<int64_t> prompt, const GenerationOptions& options = {},
    const std::optional<torch::Generator>& generator = std::nullopt,
    const std::function<bool(int64_t)>& on_token = {});

/// Special tokens of the target sequences of a `Seq2Seq`.
struct SequenceTokens {
  int64_t bos_token = 0;  ///< first token of the decoder's input
  int64_t eos_token = 0;  ///< end of sequence; may equal bos_token
};

/// Generates the target sequence for `source` and returns it without `bos_token` and `eos_token`.
/// Generation stops at `eos_token`, or after min(max_new_tokens, config.max_seq_len) tokens. The
/// repetition penalty counts tokens of the target only. Otherwise like `generate` above.
///
///     auto target = generate(seq2seq, {4, 8, 2}, {.bos_token = 0, .eos_token = 1},
///                            {.sampling = {.temperature = 0.0}});
ATTEND_API std::vector<int64_t> generate(
    Seq2Seq& model, const std::vector<int64_t>& source, const SequenceTokens& special_tokens,
    const GenerationOptions& options = {},
    const std::optional<torch::Generator>& generator = std::nullopt,
    const std::function<bool(int64_t)>& on_token = {});

}  // namespace attend
