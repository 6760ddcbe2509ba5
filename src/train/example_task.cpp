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

constexpr std::size_t kHeldOut = 1000;
constexpr uint64_t kHeldOutSeed = 20170612;
constexpr std::size_t kSamples = 5;
constexpr std::size_t kAttempts = 100;  // for each example; one in ten is held out

bool is_held_out(const Example& example) {
  return crc32c(example.prompt) % 10 == 0;
}

[[noreturn]] void refuse(std::size_t drawn, const char* use) {
  throw InputError(
      fmt::format("of {} examples drawn, too few can be {}: the task needs more different ones, by "
                  "a greater length or more symbols",
                  drawn, use));
}

}  // namespace

Batch ExampleTask::training_batch(int64_t size, Sampler& sampler) const {
  const auto wanted = static_cast<std::size_t>(size);
  std::vector<Example> examples;
  for (std::size_t i = 0; i < wanted * kAttempts && examples.size() < wanted; ++i) {
    auto example = draw(sampler);
    if (!is_held_out(example)) examples.push_back(std::move(example));
  }
  if (examples.size() < wanted) refuse(wanted * kAttempts, "trained on");
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
  if (examples.empty()) refuse(count * kAttempts, "held out");
  return examples;
}

std::vector<Batch> ExampleTask::validation_batches(int64_t size) const {
  return split_rows(rows(held_out(kHeldOut)), size);
}

std::vector<Example> ExampleTask::samples() const {
  return held_out(kSamples);
}

Batch ListedTask::training_batch(int64_t size, Sampler& sampler) const {
  return select_rows(training_, sampler.rows(training_.tokens.size(0), size));
}

std::vector<Batch> ListedTask::validation_batches(int64_t size) const {
  return split_rows(held_out_, size);
}

void ListedTask::set_examples(const std::vector<Example>& examples, double held_out) {
  std::vector<std::vector<Example>> groups;  // of the same prompt each
  std::map<std::string, std::size_t> places;
  for (const auto& example : examples) {
    const auto [place, is_new] = places.emplace(example.prompt, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(example);
  }
  const auto count = static_cast<int64_t>(groups.size());
  if (count < 2) {
    throw InputError(
        fmt::format("{} different examples are too few: one has to be held out", count));
  }
  const auto kept =
      std::clamp<int64_t>(std::llround(static_cast<double>(count) * held_out), 1, count - 1);
  const auto order = Sampler(kHeldOutSeed).rows(count, count);
  std::vector<Example> parts[2];
  for (int64_t i = 0; i < count; ++i) {
    const auto& group = groups[static_cast<std::size_t>(order[i].item<int64_t>())];
    auto& part = parts[i < kept];
    part.insert(part.end(), group.begin(), group.end());
  }
  const auto& [training, measured] = parts;
  training_ = rows(training);
  held_out_ = rows(measured);
  const auto shown = std::min(measured.size(), kSamples);
  samples_ = {measured.begin(), measured.begin() + static_cast<std::ptrdiff_t>(shown)};
}

std::vector<Batch> split_rows(const Batch& batch, int64_t size) {
  std::vector<Batch> parts;
  for (const auto& index : torch::arange(batch.tokens.size(0)).split(size)) {
    parts.push_back(select_rows(batch, index));
  }
  return parts;
}

}  // namespace attend::train
