#include "attend/train/learning_rate_search.h"

#include "attend/train/trainer.h"

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

constexpr std::size_t kNeighbours = 4;  // on either side, for the average
constexpr std::size_t kHopeless = 10;   // trials in a row that end the search
constexpr double kLeastFall = 0.1;      // share of the first loss, to call it one

std::vector<double> smooth(const std::vector<LearningRateTrial>& trials) {
  std::vector<double> means;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    // As many on both sides: near an end, a window of one side alone would pull the curve.
    const auto reach = std::min({kNeighbours, i, trials.size() - 1 - i});
    double sum = 0.0;
    for (std::size_t j = i - reach; j <= i + reach; ++j) sum += trials[j].loss;
    means.push_back(sum / static_cast<double>(2 * reach + 1));
  }
  return means;
}

/// Collects the trials, and tells when there is no more to learn from them.
class Search : public Observer {
 public:
  void on_progress(const Progress& progress) override {
    if (!std::isfinite(progress.train_loss) || !std::isfinite(progress.grad_norm)) {
      over_ = true;
      return;
    }
    trials_.push_back({progress.lr, progress.train_loss});
    lowest_ = std::min(lowest_, progress.train_loss);
    // Above the first loss, what was learned is lost.
    hopeless_ = progress.train_loss > trials_.front().loss ? hopeless_ + 1 : 0;
    if (lowest_ < (1.0 - kLeastFall) * trials_.front().loss && hopeless_ >= kHopeless) over_ = true;
  }

  bool over() const { return over_; }
  std::vector<LearningRateTrial> trials() const { return trials_; }

 private:
  std::vector<LearningRateTrial> trials_;
  double lowest_ = INFINITY;
  std::size_t hopeless_ = 0;
  bool over_ = false;
};

}  // namespace

LearningRateSearch search_learning_rate(Model model, const Task& task, TrainingConfig config,
                                        const LearningRateRange& range,
                                        const std::function<bool()>& stop_requested) {
  TORCH_CHECK_VALUE(range.lowest > 0.0 && range.lowest < range.highest && range.steps >= 2,
                    "expected 0 < lowest < highest and at least 2 steps, found ", range.lowest,
                    ", ", range.highest, " and ", range.steps);
  // No evaluation: neither an interval nor the last step comes before the search stops.
  config.max_steps = config.eval_every = range.steps + 1;
  config.log_every = 1;
  config.on_nonfinite = OnNonFinite::skip;
  const double log_ratio = std::log(range.highest / range.lowest);
  const auto rising = [&](int64_t step) {
    return range.lowest *
           std::exp(log_ratio * static_cast<double>(step) / static_cast<double>(range.steps - 1));
  };
  Search search;
  int64_t done = 0;
  Trainer(std::move(model), task, config, rising)
      .run({.observers = {&search}, .stop_requested = [&] {
              return ++done == range.steps || search.over() || (stop_requested && stop_requested());
            }});
  LearningRateSearch found{search.trials(), smooth(search.trials()), {}};
  found.suggestion = suggest_learning_rate(found.trials, found.smoothed);
  return found;
}

std::optional<double> suggest_learning_rate(const std::vector<LearningRateTrial>& trials,
                                            const std::vector<double>& smoothed) {
  if (trials.size() < 3) return std::nullopt;
  const auto lowest = std::min_element(smoothed.begin(), smoothed.end());
  if (*lowest > (1.0 - kLeastFall) * smoothed.front()) return std::nullopt;
  std::size_t steepest = 0;
  double fall = 0.0;
  const auto end = static_cast<std::size_t>(lowest - smoothed.begin());
  for (std::size_t i = 1; i + 1 <= end; ++i) {
    const double here = smoothed[i - 1] - smoothed[i + 1];
    if (here > fall) {
      fall = here;
      steepest = i;
    }
  }
  return trials[steepest].learning_rate;
}

}  // namespace attend::train
