#include "attend/train/example_task.h"

#include "attend/input_error.h"
#include "attend/train/checksum.h"

#include <set>

namespace attend::train {
namespace {

constexpr std::size_t kHeldOut = 1000;
constexpr uint64_t kHeldOutSeed = 20170612;
constexpr std::size_t kSamples = 5;
constexpr int kAttempts = 100;  // to find an example of the wanted part, on average one in ten

bool is_held_out(const Example& example) {
  return crc32c(example.prompt) % 10 == 0;
}

}  // namespace

Batch ExampleTask::training_batch(int64_t size, Sampler& sampler) const {
  std::vector<Example> examples;
  while (static_cast<int64_t>(examples.size()) < size) {
    auto example = draw(sampler);
    if (!is_held_out(example)) examples.push_back(std::move(example));
  }
  return rows(examples);
}

std::vector<Example> ExampleTask::held_out(std::size_t count) const {
  Sampler sampler(kHeldOutSeed);
  std::vector<Example> examples;
  std::set<std::string> prompts;
  for (std::size_t i = 0; i < count * kAttempts && examples.size() < count; ++i) {
    auto example = draw_held_out(sampler);
    if (is_held_out(example) && prompts.insert(example.prompt).second) {
      examples.push_back(std::move(example));
    }
  }
  if (examples.empty()) {
    throw InputError("the task has too few different examples to hold some out: raise length or symbols");
  }
  return examples;
}

std::vector<Batch> ExampleTask::validation_batches(int64_t size) const {
  const auto all = rows(held_out(kHeldOut));
  std::vector<Batch> batches;
  for (const auto& index : torch::arange(all.tokens.size(0)).split(size)) {
    batches.push_back(select_rows(all, index));
  }
  return batches;
}

std::vector<Example> ExampleTask::samples() const {
  return held_out(kSamples);
}

}  // namespace attend::train
