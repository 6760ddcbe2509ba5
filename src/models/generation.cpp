#include "attend/models/generation.h"

#include "models/beam_search.h"
#include "models/check_sampling.h"
#include "models/rolling_window.h"
#include "nn/check_eval.h"
#include "nn/checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace attend {
namespace {

void check(const GenerationOptions& options) {
  check_not_negative("max_new_tokens", options.max_new_tokens);
  check_not_negative("min_new_tokens", options.min_new_tokens);
  TORCH_CHECK_VALUE(options.min_new_tokens <= options.max_new_tokens, "min_new_tokens (",
                    options.min_new_tokens, ") must be at most max_new_tokens (",
                    options.max_new_tokens, ")");
  check_positive("num_beams", options.num_beams);
  TORCH_CHECK_VALUE(std::isfinite(options.length_penalty), "length_penalty (",
                    options.length_penalty, ") must be finite");
  check_sampling(options.sampling);
  if (options.num_beams == 1) return;
  const auto& sampling = options.sampling;
  const bool samples = (sampling.temperature != 0.0 && sampling.temperature != 1.0) ||
                       sampling.top_k != 0 || sampling.top_p != 1.0 || sampling.min_p != 0.0;
  TORCH_CHECK_VALUE(!samples, "num_beams (", options.num_beams, ") must be 1 for sampling; found ",
                    "temperature ", sampling.temperature, ", top_k ", sampling.top_k, ", top_p ",
                    sampling.top_p, ", min_p ", sampling.min_p,
                    "; beam search requires temperature 0 or 1, top_k 0, top_p 1, min_p 0");
  TORCH_CHECK_VALUE(!options.on_token, "num_beams (", options.num_beams,
                    ") must be 1 with on_token: beam search returns no tokens before it ends");
}

void check_prompts(const char* name, const std::vector<Tokens>& prompts) {
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    TORCH_CHECK_VALUE(!prompts[b].empty(), name, " ", b, " is empty, expected at least one token");
  }
}

class NextTokenOfLanguageModel : public NextTokenModel {
 public:
  explicit NextTokenOfLanguageModel(const LanguageModel& model) : model_(model) {}

  torch::Tensor step(const torch::Tensor& tokens, KvCache& cache,
                     const torch::Tensor& key_mask) override {
    return model_->step(tokens, cache, key_mask, /*logits_to_keep=*/1);
  }
  void select_rows(const std::vector<int64_t>& /*rows*/) override {}

 private:
  LanguageModel model_;
};

class NextTokenOfSeq2Seq : public NextTokenModel {
 public:
  NextTokenOfSeq2Seq(const Seq2Seq& model, const std::vector<Tokens>& sources) : model_(model) {
    const auto device = model_->source_embedding->token->weight.device();
    // Padding is on the right, so that each source has the same positions as without padding.
    torch::Tensor tokens;
    std::tie(tokens, mask_) = padded({sources.begin(), sources.end()}, "right", device);
    memory_ = model_->encode(tokens, mask_);  // (B, S, E)
    sources_.resize(sources.size());
    std::iota(sources_.begin(), sources_.end(), 0);
  }

  torch::Tensor step(const torch::Tensor& tokens, KvCache& cache,
                     const torch::Tensor& /*key_mask*/) override {
    return model_->step(tokens, memory_, cache, mask_, /*logits_to_keep=*/1);
  }

  void select_rows(const std::vector<int64_t>& rows) override {
    std::vector<int64_t> selected;
    for (const auto row : rows) selected.push_back(sources_[static_cast<std::size_t>(row)]);
    // If each row keeps its source, `memory_` remains the same tensor. For a new tensor, the keys
    // and values of the memory would be computed again.
    if (selected == sources_) return;
    sources_ = std::move(selected);
    const auto index = torch::tensor(rows, torch::kLong).to(memory_.device());
    memory_ = memory_.index_select(0, index);
    if (mask_.defined()) mask_ = mask_.index_select(0, index);
  }

 private:
  Seq2Seq model_;
  torch::Tensor memory_;          // (B, S, E)
  torch::Tensor mask_;            // (B, S), or undefined
  std::vector<int64_t> sources_;  // (B): index of the source of each row
};

std::vector<GeneratedSequence> sample_sequences(DecodingBatch& batch, const GenerationTask& task) {
  const auto& options = task.options;
  std::vector<GeneratedSequence> results(batch.size());
  std::vector<std::optional<torch::Generator>> generators(batch.size());
  for (std::size_t b = 0; options.seed && b < batch.size(); ++b) {
    generators[b] = torch::make_generator<torch::CPUGeneratorImpl>(*options.seed + b);
  }
  std::vector<std::size_t> sequences(batch.size());  // index of each row's result
  std::iota(sequences.begin(), sequences.end(), 0);
  for (int64_t step = 0; step < task.max_new_tokens && batch.size() > 0; ++step) {
    const auto logits = batch.next_logits();  // (B, V)
    std::vector<int64_t> unfinished;
    std::vector<std::size_t> unfinished_sequences;
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto sequence = sequences[row];
      auto& result = results[sequence];
      const auto row_logits = logits[static_cast<int64_t>(row)];  // (V)
      const auto token = sample(task.without_early_eos(row_logits, step), options.sampling,
                                task.previous(batch.tokens(row)), generators[sequence]);
      if (options.return_log_probs) {
        result.log_probs.push_back(row_logits.log_softmax(0)[token].item<double>());
      }
      if (task.is_eos(token)) {
        result.eos_token = token;
        continue;
      }
      result.tokens.push_back(token);
      batch.append(row, token);
      const GeneratedToken generated{token, static_cast<int64_t>(sequence)};
      if (options.on_token && !options.on_token(generated)) continue;
      unfinished.push_back(static_cast<int64_t>(row));
      unfinished_sequences.push_back(sequence);
    }
    batch.select(unfinished);
    sequences = std::move(unfinished_sequences);
  }
  return results;
}

std::vector<GeneratedSequence> run(DecodingBatch& batch, const GenerationTask& task) {
  return task.options.num_beams == 1 ? sample_sequences(batch, task) : beam_search(batch, task);
}

}  // namespace

std::vector<GeneratedSequence> generate_batch(const LanguageModel& model,
                                              const std::vector<std::vector<int64_t>>& prompts,
                                              const GenerationOptions& options) {
  check(options);
  check_prompts("prompt", prompts);
  check_eval("generate", *model);
  if (prompts.empty()) return {};
  const torch::NoGradGuard no_grad;
  const auto& config = model->config;
  const auto longest = std::max_element(prompts.begin(), prompts.end(), [](auto& a, auto& b) {
                         return a.size() < b.size();
                       })->size();
  const auto max_seq_len =
      std::min(config.max_seq_len, static_cast<int64_t>(longest) +
                                       std::min(options.max_new_tokens, config.max_seq_len));
  auto cache = model->make_cache(static_cast<int64_t>(prompts.size()), max_seq_len);
  NextTokenOfLanguageModel next_token(model);
  DecodingBatch batch(next_token, std::move(cache), prompts, max_seq_len,
                      rolls(config.stack, config.max_seq_len),
                      model->embedding->token->weight.device());
  return run(batch, {.options = options,
                     .eos_tokens = options.eos_tokens,
                     .first_previous = 0,
                     .max_new_tokens = options.max_new_tokens});
}

GeneratedSequence generate(const LanguageModel& model, const std::vector<int64_t>& prompt,
                           const GenerationOptions& options) {
  return generate_batch(model, std::vector<Tokens>{prompt}, options).front();
}

std::vector<GeneratedSequence> generate_batch(const Seq2Seq& model,
                                              const std::vector<std::vector<int64_t>>& sources,
                                              const SequenceTokens& special_tokens,
                                              const GenerationOptions& options) {
  check(options);
  check_prompts("source", sources);
  check_eval("generate", *model);
  if (sources.empty()) return {};
  const torch::NoGradGuard no_grad;
  const auto max_new_tokens = std::min(options.max_new_tokens, model->config.max_seq_len);
  if (max_new_tokens == 0) return std::vector<GeneratedSequence>(sources.size());
  NextTokenOfSeq2Seq next_token(model, sources);
  DecodingBatch batch(
      next_token, model->make_cache(static_cast<int64_t>(sources.size()), max_new_tokens),
      std::vector<Tokens>(sources.size(), {special_tokens.bos_token}), max_new_tokens,
      /*rolls=*/false, model->target_embedding->token->weight.device());
  auto eos_tokens = options.eos_tokens;
  eos_tokens.push_back(special_tokens.eos_token);
  return run(batch, {.options = options,
                     .eos_tokens = eos_tokens,
                     .first_previous = 1,
                     .max_new_tokens = max_new_tokens});
}

GeneratedSequence generate(const Seq2Seq& model, const std::vector<int64_t>& source,
                           const SequenceTokens& special_tokens, const GenerationOptions& options) {
  return generate_batch(model, std::vector<Tokens>{source}, special_tokens, options).front();
}

}  // namespace attend
