#pragma once

#include "attend/models/language_model.h"
#include "attend/models/sampling.h"
#include "attend/models/seq2seq.h"

#include <functional>
#include <optional>
#include <vector>

namespace attend {

/// How a text is continued.
///
///     GenerationOptions{.max_new_tokens = 20, .sampling = {.temperature = 0.8, .top_k = 40}}
struct GenerationOptions {
  int64_t max_new_tokens = 200;  ///< not negative
  SamplingOptions sampling = {};
};

/// Continues `prompt`, token by token; of a text longer than the model's context it sees the end.
/// Runs in eval mode, without gradients. `on_token`, if given, hears each new token at once and
/// says whether to go on. Draws from `generator`, a CPU one, or from LibTorch's global one. Returns
/// the new tokens, that at which `on_token` stopped included. Throws c10::ValueError for an empty
/// prompt or an option out of range, c10::Error if the model's scores are not finite.
///
///     auto tokens = generate(model, {7, 3}, {.max_new_tokens = 20});
///     generate(model, {7, 3}, {}, {}, [](int64_t token) { return token != 0; });  // until a 0
std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerationOptions& options = {},
                              const std::optional<torch::Generator>& generator = std::nullopt,
                              const std::function<bool(int64_t)>& on_token = {});

/// The tokens around every answer of a `Seq2Seq`.
struct AnswerTokens {
  int64_t begin = 0;  ///< what the decoder is given first
  int64_t end = 0;    ///< what it says when the answer is whole; may be the same token
};

/// The answer of `model` to `source`, without the tokens around it; as many tokens as the model's
/// context has, if none of them is the end. Otherwise as above; the repetition penalty counts the
/// answer's own tokens.
///
///     auto answer = generate(model, {4, 8, 2}, {.begin = 0, .end = 1},
///                            {.sampling = {.temperature = 0.0}});
std::vector<int64_t> generate(Seq2Seq& model, const std::vector<int64_t>& source,
                              const AnswerTokens& around, const GenerationOptions& options = {},
                              const std::optional<torch::Generator>& generator = std::nullopt,
                              const std::function<bool(int64_t)>& on_token = {});

}  // namespace attend
