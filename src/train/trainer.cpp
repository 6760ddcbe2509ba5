#include "attend/train/trainer.h"

#include "attend/io/safetensors.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/train/loss.h"
#include "train/autocast_scope.h"
#include "train/process_memory.h"
#include "train/random_states.h"

#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace attend::train {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::map<std::string, torch::Tensor>;

/// Adds the time of its life to a number of seconds.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

void add_with_prefix(Tensors& all, const std::string& prefix, const Tensors& part) {
  for (const auto& [name, tensor] : part) all.emplace(prefix + name, tensor);
}

Tensors without_prefix(const Tensors& all, const std::string& prefix) {
  Tensors part;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) part.emplace(name.substr(prefix.size()), tensor);
  }
  return part;
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace(name, tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

/// Padding included.
int64_t tokens_in(const Batch& batch) {
  return batch.tokens.numel() + (batch.decoder_tokens.defined() ? batch.decoder_tokens.numel() : 0);
}

bool all_finite(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return torch::isfinite(item.second).all().template item<bool>();
  });
}

constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kSampler = "sampler.";
constexpr const char* kRandom = "random.";

}  // namespace

Trainer::Trainer(Model model, const Task& task, const TrainingConfig& config, Schedule schedule)
    : model_(std::move(model)),
      task_(task),
      config_(config),
      schedule_(std::move(schedule)),
      parameters_(module_of(model_).parameters()),
      device_(parameters_.front().device()),
      optimizer_(make_optimizer(module_of(model_), config)),
      sampler_(static_cast<uint64_t>(config.seed)) {
  if (!schedule_) schedule_ = [config](int64_t step) { return lr_at(config, step); };
  torch::manual_seed(static_cast<uint64_t>(config.seed));
}

TrainResult Trainer::run(const TrainerHooks& hooks) {
  module_of(model_).train();
  if (hooks.checkpoint_sink != nullptr && !best_weights_.empty())
    hooks.checkpoint_sink->save_best(best_weights_);
  TrainResult outcome;
  const auto done = [&] { return state_.step >= config_.max_steps || out_of_patience(); };
  int64_t kept = state_.step;
  while (!done() && outcome.stop_reason != StopReason::stop_requested) {
    step(hooks);
    if (reports()) report(hooks);
    if (evaluates()) evaluate(hooks);
    if (hooks.stop_requested && hooks.stop_requested())
      outcome.stop_reason = StopReason::stop_requested;
    if (hooks.checkpoint_sink != nullptr && state_.step % config_.checkpoint_every == 0) {
      keep(hooks);
      kept = state_.step;
    }
  }
  if (hooks.checkpoint_sink != nullptr && kept != state_.step) keep(hooks);
  for (auto* observer : hooks.observers) observer->on_finish();
  if (done() && !state_.best) {
    throw std::runtime_error(
        fmt::format("no evaluation in {} steps had a finite loss; try a lower lr", state_.step));
  }
  if (done())
    outcome.stop_reason = out_of_patience() ? StopReason::patience : StopReason::max_steps;
  outcome.state = state_;
  outcome.tokens_per_second = static_cast<double>(state_.tokens) / state_.training_seconds;
  return outcome;
}

/// Whether there is an evaluation after the step that was begun last.
bool Trainer::evaluates() const {
  return state_.step % config_.eval_every == 0 || state_.step == config_.max_steps;
}

bool Trainer::reports() const {
  return evaluates() || state_.step % config_.log_every == 0;
}

void Trainer::step(const TrainerHooks& hooks) {
  const Stopwatch watch(state_.training_seconds);
  const double max_norm = config_.max_grad_norm > 0 ? config_.max_grad_norm : INFINITY;
  progress_.lr = schedule_(state_.step);
  progress_.step = ++state_.step;
  accumulate_gradients();
  progress_.grad_norm = torch::nn::utils::clip_grad_norm_(parameters_, max_norm);
  state_.train_loss = progress_.train_loss;
  if (std::isfinite(progress_.train_loss) && std::isfinite(progress_.grad_norm)) {
    optimizer_->step(progress_.lr);
  } else {
    // What the weights themselves have lost no later step gives back.
    const bool spoilt = !all_finite(state_dict(module_of(model_)));
    if (spoilt || config_.on_nonfinite == OnNonFinite::stop) stop_at_nonfinite(hooks, spoilt);
    ++state_.skipped_steps;
  }
}

void Trainer::stop_at_nonfinite(const TrainerHooks& hooks, bool spoilt) const {
  const auto latest =
      hooks.checkpoint_sink == nullptr ? std::string() : hooks.checkpoint_sink->latest_path();
  throw std::runtime_error(fmt::format(
      "the loss is {} and its gradient's norm {} at step {}, learning rate {:.3g}{}; the last good "
      "checkpoint: {}; try a lower lr{}",
      progress_.train_loss, progress_.grad_norm, progress_.step, progress_.lr,
      spoilt ? ": the weights are not finite themselves" : "", latest.empty() ? "none yet" : latest,
      spoilt ? "" : ", or on_nonfinite = skip"));
}

void Trainer::accumulate_gradients() {
  optimizer_->zero_grad();
  std::vector<Batch> batches;
  int64_t targets = 0;
  for (int64_t i = 0; i < config_.gradient_accumulation_steps; ++i) {
    batches.push_back(task_.training_batch(config_.batch_size, sampler_));
    targets += counted_targets(batches.back());
    state_.tokens += tokens_in(batches.back());
  }
  // Each batch's sum over the number of all targets: the mean of the batches' means would give the
  // targets of a batch with few of them more weight.
  auto mean = torch::zeros({}, torch::TensorOptions(device_).dtype(torch::kDouble));
  ExactMatch answers;
  for (const auto& rows : batches) {
    const auto batch = map_batch(rows, [&](const auto& tensor) { return tensor.to(device_); });
    auto loss = [&] {
      const AutocastGuard autocast(device_.type(), config_.precision);
      const auto logits = logits_of(model_, batch);
      if (reports()) answers += exact_match(logits, batch);
      return summed_loss(logits, batch.targets, config_.label_smoothing);
    }();
    loss = loss / static_cast<double>(targets);
    const auto balance = router_aux_loss(module_of(model_)) /
                         static_cast<double>(config_.gradient_accumulation_steps);
    (loss + config_.router_aux_loss_coef * balance).backward();
    mean += loss.detach();
  }
  progress_.train_loss = mean.item<double>();
  progress_.accuracy = answers.accuracy();
}

void Trainer::report(const TrainerHooks& hooks) {
  progress_.seconds = state_.seconds();
  progress_.tokens_per_second = static_cast<double>(state_.tokens - reported_tokens_) /
                                (state_.training_seconds - reported_seconds_);
  progress_.memory = peak_memory();
  progress_.skipped_steps = state_.skipped_steps;
  reported_tokens_ = state_.tokens;
  reported_seconds_ = state_.training_seconds;
  for (auto* observer : hooks.observers) observer->on_progress(progress_);
}

void Trainer::evaluate(const TrainerHooks& hooks) {
  {
    const Stopwatch watch(state_.evaluation_seconds);
    state_.last = attend::train::evaluate(model_, task_);
  }
  ++state_.evaluations_without_gain;
  if (std::isfinite(state_.last->loss) && (!state_.best || state_.last->loss < state_.best->loss)) {
    state_.best = state_.last;
    state_.best_step = state_.step;
    state_.evaluations_without_gain = 0;
    best_weights_ = copies_of(state_dict(module_of(model_)));
    if (hooks.checkpoint_sink != nullptr) hooks.checkpoint_sink->save_best(best_weights_);
  }
  for (auto* observer : hooks.observers) observer->on_evaluation(state_.step, *state_.last);
}

/// A step can spoil the weights, which the next loss tells first: they do not push out good ones.
void Trainer::keep(const TrainerHooks& hooks) const {
  const auto now = snapshot();
  if (all_finite(now.weights)) hooks.checkpoint_sink->save(now);
}

bool Trainer::out_of_patience() const {
  return config_.patience > 0 && state_.evaluations_without_gain >= config_.patience;
}

Checkpoint Trainer::snapshot() const {
  Checkpoint snapshot{.trainer_state = state_,
                      .weights = state_dict(module_of(model_)),
                      .state = {},
                      .best = best_weights_};
  add_with_prefix(snapshot.state, kOptimizer, optimizer_->state());
  add_with_prefix(snapshot.state, kSampler, sampler_.state());
  add_with_prefix(snapshot.state, kRandom, random_states(device_));
  return snapshot;
}

void Trainer::restore(const Checkpoint& snapshot) {
  load_state_dict(module_of(model_), snapshot.weights);
  optimizer_->load_state(without_prefix(snapshot.state, kOptimizer));
  sampler_.load_state(without_prefix(snapshot.state, kSampler));
  set_random_states(device_, without_prefix(snapshot.state, kRandom));
  state_ = snapshot.trainer_state;
  best_weights_ = snapshot.best;
  reported_seconds_ = state_.training_seconds;
  reported_tokens_ = state_.tokens;
}

}  // namespace attend::train
