#include "attend/train/example_task.h"

#include "attend/input_error.h"
#include "train/checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace attend::train {
namespace {

constexpr std::size_t kValidationExamples = 1000;
constexpr uint64_t kValidationSeed = 20170612;
constexpr std::size_t kSamples = 5;
// Maximum number of draws per example. On average, one draw in 10 gives a validation example.
constexpr std::size_t kAttempts = 100;

bool is_validation(const Example& example) {
  return crc32c(example.prompt) % 10 == 0;
}

[[noreturn]] void throw_too_few(std::size_t drawn, const char* use) {
  throw InputError(
      fmt::format("too few {} examples in {} draws: increase data.length, or data.symbols if the "
                  "task reads data.symbols",
                  use, drawn));
}

}  // namespace

Batch ExampleTask::training_batch(int64_t size, Sampler& sampler) const {
  const auto wanted = static_cast<std::size_t>(size);
  std::vector<Example> examples;
  for (std::size_t i = 0; i < wanted * kAttempts && examples.size() < wanted; ++i) {
    auto example = draw(sampler);
    if (!is_validation(example)) examples.push_back(std::move(example));
  }
  if (examples.size() < wanted) throw_too_few(wanted * kAttempts, "training");
  return rows(examples);
}

std::vector<Example> ExampleTask::validation_examples(std::size_t count) const {
  Sampler sampler(kValidationSeed);
  std::vector<Example> examples;
  std::set<std::string> prompts;
  for (std::size_t i = 0; i < count * kAttempts && examples.size() < count; ++i) {
    auto example = draw_validation(sampler);
    if (is_validation(example) && prompts.insert(example.prompt).second) {
      examples.push_back(std::move(example));
    }
  }
  if (examples.empty()) throw_too_few(count * kAttempts, "validation");
  return examples;
}

std::vector<Batch> ExampleTask::validation_batches(int64_t size) const {
  return split_rows(rows(validation_examples(kValidationExamples)), size);
}

std::vector<Example> ExampleTask::samples() const {
  return validation_examples(kSamples);
}

Batch ListedTask::training_batch(int64_t size, Sampler& sampler) const {
  return select_rows(training_, sampler.rows(training_.tokens.size(0), size));
}

std::vector<Batch> ListedTask::validation_batches(int64_t size) const {
  return split_rows(validation_, size);
}

void ListedTask::set_examples(const std::vector<Example>& examples, double val_fraction) {
  std::vector<std::vector<Example>> groups;  // each group: the examples with the same prompt
  std::map<std::string, std::size_t> index_of;
  for (const auto& example : examples) {
    const auto [found, is_new] = index_of.emplace(example.prompt, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(example);
  }
  const auto count = static_cast<int64_t>(groups.size());
  if (count < 2) {
    throw InputError(fmt::format(
        "found {} different prompts, expected at least 2: one for training, one for validation",
        count));
  }
  const auto validation_count =
      std::clamp<int64_t>(std::llround(static_cast<double>(count) * val_fraction), 1, count - 1);
  const auto order = Sampler(kValidationSeed).rows(count, count);
  std::vector<Example> parts[2];
  for (int64_t i = 0; i < count; ++i) {
    const auto& group = groups[static_cast<std::size_t>(order[i].item<int64_t>())];
    auto& part = parts[i < validation_count];
    part.insert(part.end(), group.begin(), group.end());
  }
  set_examples(parts[0], parts[1]);
}

void ListedTask::set_examples(const std::vector<Example>& training,
                              const std::vector<Example>& validation) {
  training_ = rows(training);
  validation_ = rows(validation);
  const auto shown = std::min(validation.size(), kSamples);
  samples_ = {validation.begin(), validation.begin() + static_cast<std::ptrdiff_t>(shown)};
}

std::vector<Batch> split_rows(const Batch& batch, int64_t size) {
  std::vector<Batch> parts;
  for (const auto& index : torch::arange(batch.tokens.size(0)).split(size)) {
    parts.push_back(select_rows(batch, index));
  }
  return parts;
}

}  // namespace attend::train
