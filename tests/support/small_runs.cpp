#include "support/small_runs.h"

#include "attend/io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace attend::train {
namespace {

NamedTensors copies(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.emplace(name, tensor.detach().clone());
  return all;
}

Model seeded_model(const Recipe& recipe, const Task& task) {
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  return make_model(recipe, task.tokenizer().size(), task.classes().size());
}

}  // namespace

Recipe small_recipe(const std::string& task, int64_t steps) {
  auto recipe = find_task(task).defaults;
  if (task == "modular-arithmetic") recipe.data.symbols = 7;
  recipe.stack().num_layers = 1;
  recipe.stack().num_heads = 2;
  recipe.stack().embed_dim = 16;
  recipe.stack().dropout = 0.1;
  recipe.training.max_steps = steps;
  recipe.training.batch_size = 8;
  recipe.training.warmup_steps = 2;
  recipe.training.eval_every = 4;
  recipe.training.log_every = 3;
  recipe.training.threads = 1;
  recipe.training.device = "cpu";
  return recipe;
}

SmallRun::SmallRun(const Recipe& recipe)
    : task(make_task(recipe)),
      model(seeded_model(recipe, *task)),
      trainer(std::make_shared<TaskObjective>(model, task, recipe.training), recipe.training) {}

NamedTensors SmallRun::weights() const {
  return copies(state_dict(module_of(model)));
}

bool equal_tensors(const NamedTensors& one, const NamedTensors& other) {
  return std::equal(
      one.begin(), one.end(), other.begin(), other.end(),
      [](const auto& a, const auto& b) { return a.first == b.first && a.second.equal(b.second); });
}

void Recorder::on_evaluation(int64_t step, const Evaluation& evaluation) {
  EXPECT_EQ(progress.back().step, step) << "on_progress must be called before on_evaluation";
  evaluated.push_back(step);
  evaluations.push_back(evaluation);
}

void Recorder::save_best(const NamedTensors& weights) {
  best.push_back(copies(weights));
}

std::vector<int64_t> Recorder::reported_steps() const {
  std::vector<int64_t> steps;
  for (const auto& report : progress) steps.push_back(report.step);
  return steps;
}

}  // namespace attend::train
