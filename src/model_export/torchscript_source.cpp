#include "model_export/torchscript_source.h"

#include <utility>
#include <vector>

namespace attend {
namespace {

/// Source of `sample` and `check_sampling`. `sample` samples the next tokens (B, 1) from logits
/// (B, T, V) as `attend::sample` does with the options `temperature` and `top_k`.
constexpr const char* kSampleSource = R"(
def sample(self, logits: Tensor, temperature: float, top_k: int) -> Tensor:
    scores = logits[:, -1].double()
    highest = scores.max(-1, keepdim=True)[0]
    assert bool(torch.isfinite(highest).all()), \
        "expected finite logits, found inf or nan; the model may have diverged in training"
    if temperature == 0.0:
        return scores.argmax(-1, keepdim=True)
    scores = (scores - highest) / temperature
    if top_k > 0:
        order = torch.argsort(scores, stable=True, dim=-1, descending=True)
        scores = scores.scatter(-1, order[:, top_k:], -float("inf"))
    return torch.multinomial(scores.softmax(-1), 1)

def check_sampling(self, text: Tensor, max_new_tokens: int, temperature: float, top_k: int):
    assert text.dim() == 2 and text.size(1) > 0, \
        "expected tokens of shape (batch, length) with length >= 1, found shape " + str(text.size())
    assert max_new_tokens >= 0 and temperature >= 0.0 and top_k >= 0, \
        "max_new_tokens (" + str(max_new_tokens) + "), temperature (" + str(temperature) \
        + ") and top_k (" + str(top_k) + ") must not be negative"
)";

constexpr const char* kLanguageModelSource = R"(
def generate(self, prompt: Tensor, max_new_tokens: int = 200, temperature: float = 1.0,
             top_k: int = 0) -> Tensor:
    self.check_sampling(prompt, max_new_tokens, temperature, top_k)
    batch = prompt.size(0)
    empty = self.embedding.token.weight.new_zeros([LAYERS, 2, batch, KV_HEADS, 0, HEAD_DIM])
    past = empty
    text = prompt
    unseen = prompt
    if UNLIMITED == 0:
        unseen = prompt[:, -MAX_SEQ_LEN:]
    for _ in range(max_new_tokens):
        # As in attend::generate, the oldest quarter of a full context is dropped. This shifts all
        # positions, so the cache is recomputed.
        if UNLIMITED == 0 and past.size(4) + unseen.size(1) > MAX_SEQ_LEN:
            past = empty
            unseen = text[:, -KEPT:]
        logits, past = self.step(unseen, past)
        past = past.detach()
        unseen = self.sample(logits, temperature, top_k)
        text = torch.cat([text, unseen], 1)
    return text[:, prompt.size(1):]
)";

constexpr const char* kSeq2SeqSource = R"(
def generate(self, source: Tensor, bos_token: int, eos_token: int, max_new_tokens: int = 200,
             temperature: float = 1.0, top_k: int = 0) -> Tensor:
    self.check_sampling(source, max_new_tokens, temperature, top_k)
    memory = self.encode(source).detach()
    past = memory.new_zeros([LAYERS, 2, source.size(0), KV_HEADS, 0, HEAD_DIM])
    newest = source.new_full([source.size(0), 1], bos_token)
    answer = newest[:, :0]
    ended = newest != newest
    for _ in range(min(max_new_tokens, MAX_SEQ_LEN)):
        logits, past = self.step(newest, memory, past)
        past = past.detach()
        newest = self.sample(logits, temperature, top_k).masked_fill(ended, eos_token)
        ended = ended.logical_or(newest == eos_token)
        if bool(ended.all()):
            break
        answer = torch.cat([answer, newest], 1)
    return answer
)";

constexpr const char* kPredictSource = R"(
def predict(self, tokens: Tensor, key_mask: Optional[Tensor] = None) -> Tensor:
    if key_mask is None:
        key_mask = tokens == tokens
    return self.forward_padded(tokens, key_mask).argmax(-1)
)";

/// Replaces the names LAYERS, KV_HEADS etc. in the source by the values in `sizes`.
std::string fill_in(std::string source, const CacheSizes& sizes) {
  const std::vector<std::pair<std::string, int64_t>> numbers{
      {"LAYERS", sizes.num_layers}, {"KV_HEADS", sizes.num_kv_heads},
      {"HEAD_DIM", sizes.head_dim}, {"MAX_SEQ_LEN", sizes.max_seq_len},
      {"KEPT", sizes.kept_context}, {"UNLIMITED", sizes.unlimited ? 1 : 0}};
  for (const auto& [name, number] : numbers) {
    for (auto at = source.find(name); at != std::string::npos; at = source.find(name)) {
      source.replace(at, name.size(), std::to_string(number));
    }
  }
  return source;
}

}  // namespace

std::string language_model_source(const CacheSizes& sizes) {
  return kSampleSource + fill_in(kLanguageModelSource, sizes);
}

std::string seq2seq_source(const CacheSizes& sizes) {
  return kSampleSource + fill_in(kSeq2SeqSource, sizes);
}

std::string classifier_source() {
  return kPredictSource;
}

}  // namespace attend
