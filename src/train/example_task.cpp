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

using Row = std::vector<int64_t>;

/// Returns rows as a tensor (rows, length), padded with `fill`.
torch::Tensor to_tensor(const std::vector<Row>& rows, int64_t length, int64_t fill) {
  const auto width = static_cast<std::size_t>(length);
  Row all(rows.size() * width, fill);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), all.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return torch::tensor(all, torch::kLong).view({static_cast<int64_t>(rows.size()), length});
}

/// Returns the tokens of a text of an example, at most `layout.length`.
Row fit(Row row, const std::string& text, const Example& example, const RowLayout& layout) {
  if (layout.truncate) row = truncated(std::move(row), layout.length, *layout.truncate);
  if (static_cast<int64_t>(row.size()) > layout.length) {
    throw InputError(fmt::format("example '{}': the text '{}' has {} tokens, expected at most {}",
                                 example.prompt, text, row.size(), layout.length));
  }
  return row;
}

Row encode(const std::string& text, const Example& example, const RowLayout& layout) {
  return fit(layout.tokenizer.encode(text), text, example, layout);
}

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

std::vector<int64_t> truncated(std::vector<int64_t> tokens, int64_t length, TruncationSide side) {
  const auto extra = std::max<int64_t>(static_cast<int64_t>(tokens.size()) - length, 0);
  const auto begin = side == TruncationSide::left ? tokens.begin() : tokens.end() - extra;
  tokens.erase(begin, begin + extra);
  return tokens;
}

Batch continuation_rows(const std::vector<Example>& examples, const RowLayout& layout) {
  std::vector<Row> tokens;
  std::vector<Row> targets;
  for (const auto& example : examples) {
    const auto prompt = layout.tokenizer.encode(example.prompt);
    if (prompt.empty()) {
      throw InputError(
          fmt::format("the prompt of the example with the answer '{}' is empty, expected at least "
                      "one token",
                      example.answer));
    }
    auto row = prompt;
    const auto answer = layout.tokenizer.encode(example.answer);
    row.insert(row.end(), answer.begin(), answer.end());
    if (static_cast<int64_t>(row.size()) > layout.length + 1) {
      throw InputError(fmt::format("example '{}{}' has {} tokens, expected at most {}",
                                   example.prompt, example.answer, row.size(), layout.length + 1));
    }
    Row target(row.begin() + 1, row.end());
    std::fill_n(target.begin(), prompt.size() - 1, kIgnoreIndex);
    row.pop_back();  // the last token is only a target
    tokens.push_back(std::move(row));
    targets.push_back(std::move(target));
  }
  Batch batch{to_tensor(tokens, layout.length, layout.padding),
              to_tensor(targets, layout.length, kIgnoreIndex)};
  batch.answers = batch.targets.ne(kIgnoreIndex);
  return batch;
}

Batch classification_rows(const std::vector<Example>& examples, const RowLayout& layout,
                          const std::vector<std::string>& classes) {
  std::vector<Row> tokens;
  std::vector<Row> mask;
  Row labels;
  Row is_truncated;
  for (const auto& example : examples) {
    const auto name = std::find(classes.begin(), classes.end(), example.answer);
    if (name == classes.end()) {
      throw InputError(
          fmt::format("example '{}': unknown class '{}'", example.prompt, example.answer));
    }
    labels.push_back(name - classes.begin());
    auto row = layout.tokenizer.encode(example.prompt);
    is_truncated.push_back(static_cast<int64_t>(row.size()) > layout.length);
    tokens.push_back(fit(std::move(row), example.prompt, example, layout));
    mask.emplace_back(tokens.back().size(), 1);
  }
  Batch batch{to_tensor(tokens, layout.length, layout.padding),
              torch::tensor(labels, torch::kLong)};
  batch.answers = torch::ones_like(batch.targets, torch::kBool);
  batch.key_mask = to_tensor(mask, layout.length, 0).to(torch::kBool);
  if (layout.truncate)
    batch.is_truncated = torch::tensor(is_truncated, torch::kLong).to(torch::kBool);
  return batch;
}

Batch translation_rows(const std::vector<Example>& examples, const RowLayout& layout,
                       int64_t bos_token, int64_t eos_token) {
  std::vector<Row> sources;
  std::vector<Row> mask;
  std::vector<Row> inputs;
  std::vector<Row> targets;
  RowLayout shorter = layout;
  --shorter.length;  // one position is for `bos_token` or `eos_token`
  for (const auto& example : examples) {
    sources.push_back(encode(example.prompt, example, layout));
    mask.emplace_back(sources.back().size(), 1);
    targets.push_back(encode(example.answer, example, shorter));
    inputs.push_back(targets.back());
    inputs.back().insert(inputs.back().begin(), bos_token);
    targets.back().push_back(eos_token);
  }
  Batch batch{to_tensor(sources, layout.length, layout.padding),
              to_tensor(targets, layout.length, kIgnoreIndex)};
  batch.answers = batch.targets.ne(kIgnoreIndex);
  batch.key_mask = to_tensor(mask, layout.length, 0).to(torch::kBool);
  batch.decoder_tokens = to_tensor(inputs, layout.length, layout.padding);
  return batch;
}

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
