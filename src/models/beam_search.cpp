#include "models/beam_search.h"

#include "models/check_sampling.h"
#include "models/decoding.h"

#include <cmath>
#include <optional>
#include <utility>

namespace attend {
namespace {

/// A sequence of a beam search.
struct Beam {
  GeneratedSequence sequence = {};
  double sum = 0.0;  ///< sum of the scores of the tokens

  /// Returns this beam extended by `token`. `log_prob`: the log-probability of the token. `score`:
  /// the log-probability of the token after the repetition penalty is applied to the logits.
  Beam with(int64_t token, double score, double log_prob, bool is_eos) const {
    auto next = *this;
    next.sum += score;
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

/// The beam search of one prompt. The live beams are the beams that the search still extends.
class BeamSearch {
 public:
  explicit BeamSearch(const GenerationTask& task) : task_(task), live_(1) {}

  const std::vector<Beam>& live() const { return live_; }

  /// Extends the live beams by their next tokens. `log_probs` (beams, V): log-probabilities of the
  /// tokens. `scores` (beams, V): log-probabilities after the repetition penalty is applied to the
  /// logits, -inf for suppressed tokens. Returns, for each new live beam, the index of the beam
  /// that it extends.
  std::vector<int64_t> extend(const torch::Tensor& scores, const torch::Tensor& log_probs) {
    const auto vocab_size = scores.size(1);
    auto sums = scores.clone();  // (beams, V)
    for (std::size_t beam = 0; beam < live_.size(); ++beam) {
      sums[static_cast<int64_t>(beam)] += live_[beam].sum;
    }
    // A candidate is a live beam extended by one token. There cannot be more new beams than
    // candidates.
    const auto num_beams = std::min(task_.options.num_beams, sums.numel());
    const auto num_eos = static_cast<int64_t>(task_.eos_tokens.size());
    // At most num_beams * num_eos candidates end with a stop token: num_eos for each live beam. So
    // the `count` best candidates include num_beams candidates that do not end with a stop token.
    // If there are fewer than num_beams such candidates, all of them are included.
    const auto count = std::min(sums.numel(), num_beams * (1 + num_eos));
    const auto candidates = std::get<1>(sums.flatten().topk(count));
    std::vector<Beam> next;
    std::vector<int64_t> parents;
    for (int64_t rank = 0; rank < count && static_cast<int64_t>(next.size()) < num_beams; ++rank) {
      const auto index = candidates[rank].item<int64_t>();
      const auto parent = index / vocab_size;
      const auto token = index % vocab_size;
      const auto score = scores[parent][token].item<double>();
      if (!std::isfinite(score)) break;
      const auto beam = live_[static_cast<std::size_t>(parent)].with(
          token, score, log_probs[parent][token].item<double>(), task_.is_eos(token));
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
    if (!best_) throw_all_suppressed(task_.options.sampling);
    auto sequence = std::move(best_->sequence);
    if (!task_.options.return_log_probs) sequence.log_probs.clear();
    return sequence;
  }

 private:
  void finish(const Beam& beam) {
    const auto length_penalty = task_.options.length_penalty;
    if (!best_ || beam.score(length_penalty) > best_->score(length_penalty)) best_ = beam;
  }

  /// Returns true if a live beam may still get a higher score than `best_`, or if no beam has
  /// finished. The sum of a beam can only decrease. So the final score of a beam is at most the
  /// score computed from its current sum and the length that gives the highest score.
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

  const GenerationTask& task_;
  std::vector<Beam> live_;
  std::optional<Beam> best_;
};

}  // namespace

std::vector<GeneratedSequence> beam_search(DecodingBatch& batch, const GenerationTask& task) {
  const auto& sampling = task.options.sampling;
  std::vector<BeamSearch> searches(batch.size(), BeamSearch(task));
  for (int64_t step = 0; step < task.max_new_tokens && batch.size() > 0; ++step) {
    const auto logits = batch.next_logits();  // (B, V): one row per live beam
    std::vector<int64_t> parents;
    std::vector<int64_t> tokens;
    int64_t begin = 0;  // first row of the current search
    for (auto& search : searches) {
      const auto beams = static_cast<int64_t>(search.live().size());
      if (beams == 0) continue;
      std::vector<torch::Tensor> scores;
      for (auto row = begin; row < begin + beams; ++row) {
        const auto previous = task.previous(batch.tokens(static_cast<std::size_t>(row)));
        const auto row_scores = penalize_repetition(checked_logits(logits[row]), previous,
                                                    sampling.repetition_penalty)
                                    .log_softmax(0);  // (V)
        // Suppressed after the softmax, so that the scores of the other tokens do not change.
        scores.push_back(
            without_suppressed(task.without_early_eos(row_scores, step), sampling, previous));
      }
      const auto log_probs = logits.narrow(0, begin, beams).log_softmax(1);  // (beams, V)
      for (const auto parent : search.extend(torch::stack(scores), log_probs)) {
        parents.push_back(begin + parent);
      }
      for (const auto& beam : search.live()) tokens.push_back(beam.sequence.tokens.back());
      begin += beams;
    }
    batch.select(parents);
    for (std::size_t row = 0; row < tokens.size(); ++row) batch.append(row, tokens[row]);
  }
  std::vector<GeneratedSequence> results;
  for (auto& search : searches) results.push_back(search.best());
  return results;
}

}  // namespace attend
