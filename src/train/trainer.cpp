#include "attend/train/trainer.h"

#include "attend/nn/mixture_of_experts.h"
#include "attend/train/optimizer.h"
#include "attend/train/schedule.h"

#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>

#include <chrono>
#include <cmath>

namespace attend::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Outcome train(LanguageModel& model, const Task& task, const TrainingConfig& config,
              const std::vector<Observer*>& observers) {
  const auto seed = static_cast<uint64_t>(config.seed);
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  torch::manual_seed(seed);  // dropout draws from the global generator
  const auto optimizer = make_optimizer(*model, config);
  const auto parameters = model->parameters();
  const double max_norm = config.clip > 0 ? config.clip : INFINITY;

  Outcome outcome;
  Progress progress;
  double training_seconds = 0.0;
  int64_t training_tokens = 0;
  double reported_seconds = 0.0;
  int64_t reported_tokens = 0;
  const auto start = Clock::now();
  model->train();

  for (int64_t step = 0; step < config.steps; ++step) {
    const auto step_start = Clock::now();
    const auto batch = task.training_batch(config.batch, generator);
    optimizer->zero_grad();
    const auto loss = batch_loss(model(batch.tokens), batch, torch::kMean);
    progress.step = step + 1;
    progress.loss = loss.item<double>();
    progress.learning_rate = learning_rate(config, step);
    if (!std::isfinite(progress.loss)) {
      throw std::runtime_error(
          fmt::format("the loss is {} at step {}, learning rate {:.3g}: try a lower --lr",
                      progress.loss, progress.step, progress.learning_rate));
    }
    (loss + config.balance * balance_loss(*model)).backward();
    progress.gradient_norm = torch::nn::utils::clip_grad_norm_(parameters, max_norm);
    optimizer->step(progress.learning_rate);
    training_seconds += seconds_since(step_start);
    training_tokens += batch.tokens.numel();

    const bool last = progress.step == config.steps;
    const bool evaluates = last || progress.step % config.eval_every == 0;
    if (evaluates || progress.step % config.log_every == 0) {
      progress.seconds = seconds_since(start);
      progress.tokens_per_second = static_cast<double>(training_tokens - reported_tokens) /
                                   (training_seconds - reported_seconds);
      reported_tokens = training_tokens;
      reported_seconds = training_seconds;
      for (auto* observer : observers) observer->on_progress(progress);
    }
    if (evaluates) {
      outcome.evaluation = evaluate(model, task);
      for (auto* observer : observers) observer->on_evaluation(progress.step, outcome.evaluation);
    }
  }
  outcome.train_loss = progress.loss;
  outcome.seconds = seconds_since(start);
  outcome.tokens_per_second = static_cast<double>(training_tokens) / training_seconds;
  return outcome;
}

}  // namespace attend::train
