#include "attend/models/generation.h"

#include "models/decoding.h"
#include "nn/check_eval.h"
#include "nn/checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace attend {
namespace {

using Tokens = std::vector<int64_t>;

void check(const GenerationOptions& options) {
  check_not_negative("max_new_tokens", options.max_new_tokens);
  check_positive("num_beams", options.num_beams);
  TORCH_CHECK_VALUE(std::isfinite(options.length_penalty), "length_penalty (",
                    options.length_penalty, ") must be finite");
  check_sampling(options.sampling);
  if (options.num_beams == 1) return;
  const auto& sampling = options.sampling;
  const bool samples = (sampling.temperature != 0.0 && sampling.temperature != 1.0) ||
                       sampling.top_k != 0 || sampling.top_p != 1.0 || sampling.min_p != 0.0;
  TORCH_CHECK_VALUE(!samples, "num_beams (", options.num_beams, ") must be 1 for sampling, found ",
                    "temperature ", sampling.temperature, ", top_k ", sampling.top_k, ", top_p ",
                    sampling.top_p, ", min_p ", sampling.min_p);
  TORCH_CHECK_VALUE(!options.on_token, "num_beams (", options.num_beams,
                    ") must be 1 with on_token: beam search has no tokens before its end");
}

void check_prompts(const char* name, const std::vector<Tokens>& prompts) {
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    TORCH_CHECK_VALUE(!prompts[b].empty(), "the ", name, prompts.size() == 1 ? "" : " ",
                      prompts.size() == 1 ? "" : std::to_string(b),
                      " is empty, expected at least one token");
  }
}

/// Returns `rows` as tensors (B, T) of tokens and key mask, padded in front.
std::pair<torch::Tensor, torch::Tensor> padded_in_front(const std::vector<at::IntArrayRef>& rows,
                                                        const torch::Device& device) {
  std::size_t length = 0;
  for (const auto& row : rows) length = std::max(length, row.size());
  const std::vector<int64_t> shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(length)};
  const auto tokens = torch::zeros(shape, torch::kLong);
  const auto key_mask = torch::zeros(shape, torch::kBool);
  for (std::size_t b = 0; b < rows.size(); ++b) {
    auto* const end = tokens.data_ptr<int64_t>() + (b + 1) * length;
    std::copy(rows[b].begin(), rows[b].end(), end - rows[b].size());
    std::fill_n(key_mask.data_ptr<bool>() + (b + 1) * length - rows[b].size(), rows[b].size(),
                true);
  }
  return {tokens.to(device), key_mask.to(device)};
}

/// A model that decodes the next token of each row of a batch.
class NextTokenModel {
 public:
  virtual ~NextTokenModel() = default;
  /// Appends `tokens` (B, T) and returns the logits (B, 1, V) of the last position. `key_mask`
  /// (B, T) is undefined if there is no padding.
  virtual torch::Tensor step(const torch::Tensor& tokens, KvCache& cache,
                             const torch::Tensor& key_mask) = 0;
  /// Replaces the rows: the new row n is a copy of the row rows[n].
  virtual void select_rows(const std::vector<int64_t>& rows) = 0;
};

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
    // Padded at the end, so that each source has the same positions as without a batch.
    std::vector<Tokens> reversed(sources);
    for (auto& row : reversed) std::reverse(row.begin(), row.end());
    const auto [tokens, mask] = padded_in_front({reversed.begin(), reversed.end()}, device);
    if (!mask.all().item<bool>()) mask_ = mask.flip(1);
    memory_ = model_->encode(tokens.flip(1), mask_);  // (B, S, E)
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
    // Unchanged: keep the tensor, whose keys and values are in the cache.
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

/// The rows of a batch during generation: all tokens of each row, and a KV cache of its context.
class Rows {
 public:
  /// `max_seq_len`: maximum number of tokens of the context and of one call. `rolls`: the cache
  /// overwrites tokens outside of the window; else the context is shortened when it is full.
  Rows(NextTokenModel& model, KvCache cache, std::vector<Tokens> tokens, int64_t max_seq_len,
       bool rolls, torch::Device device)
      : model_(model),
        cache_(std::move(cache)),
        tokens_(std::move(tokens)),
        begins_(tokens_.size(), 0),
        max_seq_len_(static_cast<std::size_t>(max_seq_len)),
        kept_(static_cast<std::size_t>(kept_context(max_seq_len))),
        rolls_(rolls),
        device_(device) {}

  std::size_t size() const { return tokens_.size(); }
  const Tokens& tokens(std::size_t row) const { return tokens_[row]; }
  void append(std::size_t row, int64_t token) { tokens_[row].push_back(token); }

  /// Returns the logits (B, V) of the next token of each row, float64 on the CPU.
  torch::Tensor next_logits() {
    if (!rolls_) shorten_contexts();
    // First, all but the last max_seq_len tokens of long prompts.
    while (longest_pending() > max_seq_len_) {
      feed([this](std::size_t tokens) {
        return tokens > max_seq_len_ ? std::min(tokens - max_seq_len_, max_seq_len_) : 0;
      });
    }
    const auto logits = feed([](std::size_t tokens) { return tokens; });  // (B, 1, V)
    return logits.select(1, -1).to(torch::kCPU, torch::kDouble);
  }

  /// Replaces the rows: the new row n is a copy of the row rows[n].
  void select(const std::vector<int64_t>& rows) {
    std::vector<int64_t> all(tokens_.size());
    std::iota(all.begin(), all.end(), 0);
    if (rows == all) return;
    std::vector<Tokens> tokens;
    std::vector<std::size_t> begins;
    for (const auto row : rows) {
      tokens.push_back(tokens_[static_cast<std::size_t>(row)]);
      begins.push_back(begins_[static_cast<std::size_t>(row)]);
    }
    tokens_ = std::move(tokens);
    begins_ = std::move(begins);
    cache_.select_rows(rows);
    model_.select_rows(rows);
  }

 private:
  std::size_t cached(std::size_t row) const {
    return static_cast<std::size_t>(cache_.lengths()[row]);
  }
  /// Number of tokens that are not in the cache.
  std::size_t pending(std::size_t row) const {
    return tokens_[row].size() - begins_[row] - cached(row);
  }
  std::size_t longest_pending() const {
    std::size_t longest = 0;
    for (std::size_t row = 0; row < size(); ++row) longest = std::max(longest, pending(row));
    return longest;
  }

  /// Drops the oldest tokens of the rows whose context exceeds max_seq_len. This shifts all
  /// positions, so the cached keys and values become invalid. Drops a quarter at once, since
  /// recomputing the context for each token would be slow.
  void shorten_contexts() {
    auto lengths = cache_.lengths();
    for (std::size_t row = 0; row < size(); ++row) {
      const auto end = tokens_[row].size();
      if (end - begins_[row] <= max_seq_len_) continue;
      const auto kept = cached(row) == 0 ? max_seq_len_ : kept_;
      begins_[row] = end - kept;
      lengths[row] = 0;
    }
    if (lengths != cache_.lengths()) cache_.truncate(lengths);
  }

  /// Feeds the next count(pending tokens) of each row to the model.
  template <typename Count>
  torch::Tensor feed(const Count& count) {
    std::vector<at::IntArrayRef> rows;
    for (std::size_t row = 0; row < size(); ++row) {
      const auto begin = begins_[row] + cached(row);
      rows.emplace_back(tokens_[row].data() + begin, count(pending(row)));
    }
    const bool is_padded = std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
      return row.size() != rows.front().size();
    });
    const auto [tokens, key_mask] = padded_in_front(rows, device_);
    return model_.step(tokens, cache_, is_padded ? key_mask : torch::Tensor());
  }

  NextTokenModel& model_;
  KvCache cache_;
  std::vector<Tokens> tokens_;
  std::vector<std::size_t> begins_;  // index of the first token of each row's context
  std::size_t max_seq_len_;
  std::size_t kept_;  // number of tokens of a shortened context
  bool rolls_;
  torch::Device device_;
};

/// Arguments of both sampling and beam search.
struct Task {
  const GenerationOptions& options;
  Tokens eos_tokens;
  std::size_t first_penalized;  ///< index of the first token that the repetition penalty counts
  int64_t max_new_tokens;

  bool is_eos(int64_t token) const {
    return std::find(eos_tokens.begin(), eos_tokens.end(), token) != eos_tokens.end();
  }
  at::IntArrayRef penalized(const Tokens& tokens) const {
    return at::IntArrayRef(tokens).slice(first_penalized);
  }
};

std::vector<GeneratedSequence> sample_sequences(Rows& rows, const Task& task) {
  const auto& options = task.options;
  std::vector<GeneratedSequence> results(rows.size());
  std::vector<std::optional<torch::Generator>> generators(rows.size());
  for (std::size_t b = 0; options.seed && b < rows.size(); ++b) {
    generators[b] = torch::make_generator<torch::CPUGeneratorImpl>(*options.seed + b);
  }
  std::vector<std::size_t> sequences(rows.size());  // index of each row's result
  std::iota(sequences.begin(), sequences.end(), 0);
  for (int64_t step = 0; step < task.max_new_tokens && rows.size() > 0; ++step) {
    const auto logits = rows.next_logits();  // (B, V)
    std::vector<int64_t> unfinished;
    std::vector<std::size_t> unfinished_sequences;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto sequence = sequences[row];
      auto& result = results[sequence];
      const auto row_logits = logits[static_cast<int64_t>(row)];  // (V)
      const auto token = sample(row_logits, options.sampling, task.penalized(rows.tokens(row)),
                                generators[sequence]);
      if (options.return_log_probs) {
        result.log_probs.push_back(row_logits.log_softmax(0)[token].item<double>());
      }
      if (task.is_eos(token)) {
        result.eos_token = token;
        continue;
      }
      result.tokens.push_back(token);
      rows.append(row, token);
      const GeneratedToken generated{token, static_cast<int64_t>(sequence)};
      if (options.on_token && !options.on_token(generated)) continue;
      unfinished.push_back(static_cast<int64_t>(row));
      unfinished_sequences.push_back(sequence);
    }
    rows.select(unfinished);
    sequences = std::move(unfinished_sequences);
  }
  return results;
}

/// A sequence of a beam search.
struct Beam {
  GeneratedSequence sequence = {};
  double sum = 0.0;  ///< of the log-probabilities

  Beam with(int64_t token, double log_prob, bool is_eos) const {
    auto next = *this;
    next.sum += log_prob;
    next.sequence.log_probs.push_back(log_prob);
    if (is_eos) {
      next.sequence.eos_token = token;
    } else {
      next.sequence.tokens.push_back(token);
    }
    return next;
  }
  double score(double length_penalty) const { return score(length_penalty, length()); }
  double score(double length_penalty, std::size_t length) const {
    return length == 0 ? 0.0 : sum / std::pow(static_cast<double>(length), length_penalty);
  }
  std::size_t length() const { return sequence.log_probs.size(); }
};

/// The beam search of one prompt.
class BeamSearch {
 public:
  explicit BeamSearch(const Task& task) : task_(task), live_(1) {}

  const std::vector<Beam>& live() const { return live_; }
  bool is_done() const { return live_.empty(); }

  /// Extends the live beams, whose next tokens have `log_probs` (beams, V). Returns, for each new
  /// live beam, the index of the beam that it extends.
  std::vector<int64_t> extend(const torch::Tensor& log_probs) {
    const auto vocab_size = log_probs.size(1);
    auto sums = log_probs.clone();  // (beams, V)
    for (std::size_t beam = 0; beam < live_.size(); ++beam) {
      sums[static_cast<int64_t>(beam)] += live_[beam].sum;
    }
    const auto num_beams = task_.options.num_beams;
    // Enough candidates for num_beams beams without a stop token.
    const auto num_eos = static_cast<int64_t>(task_.eos_tokens.size());
    const auto count = std::min(sums.numel(), num_beams * (1 + num_eos));
    const auto candidates = std::get<1>(sums.flatten().topk(count));
    std::vector<Beam> next;
    std::vector<int64_t> parents;
    for (int64_t rank = 0; rank < count && static_cast<int64_t>(next.size()) < num_beams; ++rank) {
      const auto index = candidates[rank].item<int64_t>();
      const auto parent = index / vocab_size;
      const auto token = index % vocab_size;
      const auto log_prob = log_probs[parent][token].item<double>();
      if (!std::isfinite(log_prob)) break;
      const auto beam =
          live_[static_cast<std::size_t>(parent)].with(token, log_prob, task_.is_eos(token));
      if (!task_.is_eos(token)) {
        next.push_back(beam);
        parents.push_back(parent);
      } else if (rank < num_beams) {
        finish(beam);
      }
    }
    live_ = std::move(next);
    if (!can_improve()) {
      live_.clear();
      parents.clear();
    }
    return parents;
  }

  /// Returns the best sequence.
  GeneratedSequence best() {
    for (const auto& beam : live_) finish(beam);
    auto sequence = std::move(best_->sequence);
    if (!task_.options.return_log_probs) sequence.log_probs.clear();
    return sequence;
  }

 private:
  void finish(const Beam& beam) {
    const auto length_penalty = task_.options.length_penalty;
    if (!best_ || beam.score(length_penalty) > best_->score(length_penalty)) best_ = beam;
  }

  /// Returns true if a live beam may still exceed the best score. Its sum can only decrease, so the
  /// upper bound is the score of the current sum at the most favorable length.
  bool can_improve() const {
    if (!best_) return true;
    const auto length_penalty = task_.options.length_penalty;
    return std::any_of(live_.begin(), live_.end(), [&](const Beam& beam) {
      const auto max_length = static_cast<std::size_t>(task_.max_new_tokens);
      const auto length =
          length_penalty > 0.0 ? max_length : std::min(beam.length() + 1, max_length);
      return beam.score(length_penalty, length) > best_->score(length_penalty);
    });
  }

  const Task& task_;
  std::vector<Beam> live_;
  std::optional<Beam> best_;
};

std::vector<GeneratedSequence> beam_search(Rows& rows, const Task& task) {
  std::vector<BeamSearch> searches(rows.size(), BeamSearch(task));
  for (int64_t step = 0; step < task.max_new_tokens && rows.size() > 0; ++step) {
    const auto logits = rows.next_logits();  // (rows, V), in the order of searches and beams
    std::vector<int64_t> parents;
    std::vector<int64_t> tokens;
    int64_t begin = 0;  // first row of the search
    for (auto& search : searches) {
      const auto beams = static_cast<int64_t>(search.live().size());
      if (beams == 0) continue;
      std::vector<torch::Tensor> log_probs;
      for (auto row = begin; row < begin + beams; ++row) {
        log_probs.push_back(
            penalize_repetition(checked_logits(logits[row]),
                                task.penalized(rows.tokens(static_cast<std::size_t>(row))),
                                task.options.sampling.repetition_penalty)
                .log_softmax(0));  // (V)
      }
      for (const auto parent : search.extend(torch::stack(log_probs))) {
        parents.push_back(begin + parent);
      }
      for (const auto& beam : search.live()) tokens.push_back(beam.sequence.tokens.back());
      begin += beams;
    }
    rows.select(parents);
    for (std::size_t row = 0; row < tokens.size(); ++row) rows.append(row, tokens[row]);
  }
  std::vector<GeneratedSequence> results;
  for (auto& search : searches) results.push_back(search.best());
  return results;
}

std::vector<GeneratedSequence> run(Rows& rows, const Task& task) {
  return task.options.num_beams == 1 ? sample_sequences(rows, task) : beam_search(rows, task);
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
  Rows rows(next_token, std::move(cache), prompts, max_seq_len,
            rolls(config.stack, config.max_seq_len), model->embedding->token->weight.device());
  return run(rows, {.options = options,
                    .eos_tokens = options.eos_tokens,
                    .first_penalized = 0,
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
  Rows rows(next_token, model->make_cache(static_cast<int64_t>(sources.size()), max_new_tokens),
            std::vector<Tokens>(sources.size(), {special_tokens.bos_token}), max_new_tokens,
            /*rolls=*/false, model->target_embedding->token->weight.device());
  auto eos_tokens = options.eos_tokens;
  eos_tokens.push_back(special_tokens.eos_token);
  return run(rows, {.options = options,
                    .eos_tokens = eos_tokens,
                    .first_penalized = 1,
                    .max_new_tokens = max_new_tokens});
}

GeneratedSequence generate(const Seq2Seq& model, const std::vector<int64_t>& source,
                           const SequenceTokens& special_tokens, const GenerationOptions& options) {
  return generate_batch(model, std::vector<Tokens>{source}, special_tokens, options).front();
}

}  // namespace attend
