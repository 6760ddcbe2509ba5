#include "attend/train/learning_rate_search.h"

#include "attend/train/trainer.h"

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

constexpr std::size_t kNeighbours = 4;  // losses on each side of a loss in the moving average
constexpr std::size_t kMaxWorse = 10;   // consecutive losses above the first loss before stopping
constexpr double kMinDecrease = 0.1;    // fraction of the first loss; a smaller decrease is noise

std::vector<double> smooth(const std::vector<LearningRateStep>& steps) {
  std::vector<double> means;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // The window is symmetric, since a one-sided window would bias the curve near its ends.
    const auto radius = std::min({kNeighbours, i, steps.size() - 1 - i});
    double sum = 0.0;
    for (std::size_t j = i - radius; j <= i + radius; ++j) sum += steps[j].loss;
    means.push_back(sum / static_cast<double>(2 * radius + 1));
  }
  return means;
}

/// Records the steps. `done` returns true after training has diverged; the search then ends early.
class StepRecorder : public Observer {
 public:
  void on_progress(const Progress& progress) override {
    if (!std::isfinite(progress.train_loss) || !std::isfinite(progress.grad_norm)) {
      done_ = true;
      return;
    }
    steps_.push_back({progress.lr, progress.train_loss});
    min_loss_ = std::min(min_loss_, progress.train_loss);
    // Training has diverged if the loss decreased by more than the fraction kMinDecrease, and was
    // then above the first loss in kMaxWorse consecutive steps.
    worse_ = progress.train_loss > steps_.front().loss ? worse_ + 1 : 0;
    if (min_loss_ < (1.0 - kMinDecrease) * steps_.front().loss && worse_ >= kMaxWorse) done_ = true;
  }

  bool done() const { return done_; }
  const std::vector<LearningRateStep>& steps() const { return steps_; }

 private:
  std::vector<LearningRateStep> steps_;
  double min_loss_ = INFINITY;
  std::size_t worse_ = 0;
  bool done_ = false;
};

}  // namespace

LearningRateSearch search_learning_rate(std::shared_ptr<Objective> objective, TrainingConfig config,
                                        const LearningRateRange& range,
                                        const std::function<bool()>& stop_requested) {
  TORCH_CHECK_VALUE(range.min_lr > 0.0 && range.min_lr < range.max_lr && range.num_steps >= 2,
                    "expected 0 < min_lr < max_lr and num_steps >= 2, found min_lr ", range.min_lr,
                    ", max_lr ", range.max_lr, " and num_steps ", range.num_steps);
  // The search does not evaluate: the first evaluation would be at step num_steps + 1, but the
  // search stops at step num_steps.
  config.max_steps = config.eval_every = range.num_steps + 1;
  config.log_every = 1;
  config.on_nonfinite = OnNonFinite::skip;
  const double log_ratio = std::log(range.max_lr / range.min_lr);
  const auto schedule = [&](int64_t step) {
    return range.min_lr * std::exp(log_ratio * static_cast<double>(step) /
                                   static_cast<double>(range.num_steps - 1));
  };
  StepRecorder recorder;
  int64_t step = 0;
  Trainer(std::move(objective), config, schedule)
      .run({.observers = {&recorder}, .stop_requested = [&] {
              return ++step == range.num_steps || recorder.done() ||
                     (stop_requested && stop_requested());
            }});
  LearningRateSearch result{recorder.steps(), smooth(recorder.steps()), {}};
  result.suggestion = suggest_learning_rate(result.steps, result.smoothed);
  return result;
}

std::optional<double> suggest_learning_rate(const std::vector<LearningRateStep>& steps,
                                            const std::vector<double>& smoothed) {
  if (steps.size() < 3) return std::nullopt;
  const auto minimum = std::min_element(smoothed.begin(), smoothed.end());
  if (*minimum > (1.0 - kMinDecrease) * smoothed.front()) return std::nullopt;
  std::size_t steepest = 0;
  double max_decrease = 0.0;
  const auto end = static_cast<std::size_t>(minimum - smoothed.begin());
  for (std::size_t i = 1; i + 1 <= end; ++i) {
    const double decrease = smoothed[i - 1] - smoothed[i + 1];
    if (decrease > max_decrease) {
      max_decrease = decrease;
      steepest = i;
    }
  }
  return steps[steepest].lr;
}

}  // namespace attend::train
