#include "attend/train/example_task.h"

#include "attend/input_error.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/token_predictions.h"
#include "train/checksum.h"
#include "train/problem_rules.h"
#include "train/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
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

/// Divides `count` validation groups over the answers in proportion to their numbers of groups
/// (largest remainder), but leaves a group of each answer for training. The sum is less than
/// `count` if there are too few groups.
std::map<std::string, int64_t> validation_quotas(const std::map<std::string, int64_t>& groups,
                                                 int64_t count) {
  int64_t total = 0;
  for (const auto& [answer, number] : groups) total += number;
  std::map<std::string, int64_t> quotas;
  std::vector<std::pair<int64_t, std::string>> remainders;  // negated, for sorting
  auto left = count;
  for (const auto& [answer, number] : groups) {
    quotas[answer] = std::min(number * count / total, number - 1);
    left -= quotas[answer];
    remainders.emplace_back(-(number * count % total), answer);
  }
  std::sort(remainders.begin(), remainders.end());
  for (bool changed = true; changed && left > 0;) {
    changed = false;
    for (const auto& [remainder, answer] : remainders) {
      if (left == 0 || quotas[answer] == groups.at(answer) - 1) continue;
      ++quotas[answer];
      --left;
      changed = true;
    }
  }
  return quotas;
}

}  // namespace

std::vector<int64_t> truncated(std::vector<int64_t> tokens, int64_t length, TruncationSide side) {
  const auto extra = std::max<int64_t>(static_cast<int64_t>(tokens.size()) - length, 0);
  const auto begin = side == TruncationSide::left ? tokens.begin() : tokens.end() - extra;
  tokens.erase(begin, begin + extra);
  return tokens;
}

int64_t max_text_tokens(const Tokenizer& tokenizer, int64_t max_seq_len) {
  const auto* published = dynamic_cast<const PublishedTokenizer*>(&tokenizer);
  const auto limit = published == nullptr ? std::nullopt : published->model().max_length;
  return std::min(max_seq_len, limit.value_or(max_seq_len));
}

EncodedText encode_text(const Tokenizer& tokenizer, std::string_view text, int64_t max_tokens,
                        TruncationSide side) {
  const auto* published = dynamic_cast<const PublishedTokenizer*>(&tokenizer);
  if (published == nullptr) {
    auto tokens = tokenizer.encode(text);
    const auto count = std::ssize(tokens);
    return {truncated(std::move(tokens), max_tokens, side), count};
  }
  const auto special = special_tokens_of(tokenizer);
  const auto room = max_text_tokens(tokenizer, max_tokens) - special.size();
  const auto ids = published->token_ids(text);
  const auto kept = truncated({ids.begin(), ids.end()}, std::max<int64_t>(room, 0), side);
  return {special.around(kept), std::ssize(ids) + special.size()};
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

Batch packed_rows(const std::vector<PackedExample>& examples, int64_t length) {
  TORCH_CHECK_VALUE(!examples.empty(), "packed_rows requires examples, found none");
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return examples[a].tokens.size() > examples[b].tokens.size();
  });
  struct PackedRow {
    Row tokens, targets, segments, positions;
  };
  std::vector<PackedRow> rows;
  std::multimap<int64_t, std::size_t> space;  // tokens for which a row has room, and its index
  for (const auto i : order) {
    const auto& [tokens, is_answer] = examples[i];
    const auto count = std::ssize(tokens) - 1;  // the last token is only a target
    TORCH_CHECK_VALUE(count >= 1 && count <= length, "an example has ", tokens.size(),
                      " tokens, expected 2 to ", length + 1);
    TORCH_CHECK_VALUE(is_answer.size() == tokens.size(), "is_answer has ", is_answer.size(),
                      " values, expected one for each of ", tokens.size(), " tokens");
    const auto found = space.lower_bound(count);
    const auto index = found == space.end() ? rows.size() : found->second;
    const auto room = found == space.end() ? length : found->first;
    if (found == space.end())
      rows.emplace_back();
    else
      space.erase(found);
    space.emplace(room - count, index);
    auto& row = rows[index];
    const auto segment = row.segments.empty() ? 1 : row.segments.back() + 1;
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      row.tokens.push_back(tokens[t]);
      row.targets.push_back(is_answer[t + 1] ? tokens[t + 1] : kIgnoreIndex);
      row.segments.push_back(segment);
      row.positions.push_back(static_cast<int64_t>(t));
    }
  }
  const auto stacked = [&](Row PackedRow::*member, int64_t fill) {
    std::vector<Row> all;
    for (const auto& row : rows) all.push_back(row.*member);
    return to_tensor(all, length, fill);  // (B, T)
  };
  Batch batch{stacked(&PackedRow::tokens, 0), stacked(&PackedRow::targets, kIgnoreIndex)};
  batch.segments = stacked(&PackedRow::segments, 0);  // padding is a segment of its own
  batch.positions = stacked(&PackedRow::positions, 0);
  return batch;
}

Batch classification_rows(const std::vector<Example>& examples, const RowLayout& layout,
                          const std::vector<std::string>& classes, const Problem& problem) {
  std::vector<Row> tokens;
  std::vector<Row> mask;
  Row is_truncated;
  for (const auto& example : examples) {
    if (layout.truncate) {
      auto encoded = encode_text(layout.tokenizer, example.prompt, layout.length, *layout.truncate);
      is_truncated.push_back(encoded.is_truncated());
      tokens.push_back(std::move(encoded.tokens));
    } else {
      tokens.push_back(
          fit(layout.tokenizer.encode(example.prompt), example.prompt, example, layout));
    }
    mask.emplace_back(tokens.back().size(), 1);
  }
  Batch batch{to_tensor(tokens, layout.length, layout.padding),
              rules_of(problem.type).targets(examples, classes)};
  batch.problem = problem;
  if (problem.type != ProblemType::regression)
    batch.answers = torch::ones_like(batch.targets, torch::kBool);
  batch.key_mask = to_tensor(mask, layout.length, 0).to(torch::kBool);
  if (layout.truncate)
    batch.is_truncated = torch::tensor(is_truncated, torch::kLong).to(torch::kBool);
  return batch;
}

Batch tag_rows(const std::vector<Example>& examples, const RowLayout& layout,
               const std::vector<std::string>& tags) {
  std::vector<Row> tokens, mask, targets;
  Row is_truncated;
  for (const auto& example : examples) {
    const auto& labels = example.labels;
    const auto& words = example.words;
    if (labels.size() != words.size()) {
      throw InputError(fmt::format("example '{}': found {} tags, expected {}, one for each word",
                                   example.prompt, labels.size(), words.size()));
    }
    auto encoded = encode_words(layout.tokenizer, words, layout.length);
    targets.emplace_back(encoded.tokens.size(), kIgnoreIndex);
    for (std::size_t i = 0; i < encoded.first_tokens.size(); ++i) {
      const auto found = std::ranges::find(tags, labels[i]);
      if (found == tags.end())
        throw InputError(fmt::format("example '{}': unknown tag '{}'", example.prompt, labels[i]));
      const auto position = encoded.first_tokens[i];
      if (position >= 0) targets.back()[static_cast<std::size_t>(position)] = found - tags.begin();
    }
    is_truncated.push_back(encoded.first_tokens.size() < words.size());
    mask.emplace_back(encoded.tokens.size(), 1);
    tokens.push_back(std::move(encoded.tokens));
  }
  Batch batch{to_tensor(tokens, layout.length, layout.padding),
              to_tensor(targets, layout.length, kIgnoreIndex)};
  batch.problem = {.type = ProblemType::token_classification, .tags = tags};
  batch.answers = batch.targets.ne(kIgnoreIndex);
  batch.key_mask = to_tensor(mask, layout.length, 0).to(torch::kBool);
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

void ListedTask::set_examples(const std::vector<Example>& examples, double val_fraction,
                              bool stratify) {
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
  std::map<std::string, int64_t> quotas;  // by answer
  if (stratify) {
    std::map<std::string, int64_t> counts;
    for (const auto& group : groups) ++counts[group.front().answer];
    quotas = validation_quotas(counts, validation_count);
  }
  auto left = validation_count;
  for (const auto& [answer, quota] : quotas) left -= quota;
  const auto order = Sampler(kValidationSeed).rows(count, count);
  std::vector<Example> parts[2];
  for (int64_t i = 0; i < count; ++i) {
    const auto& group = groups[static_cast<std::size_t>(order[i].item<int64_t>())];
    auto& quota = quotas[group.front().answer];
    // Without a quota, the first groups are validation data.
    auto& remaining = quota > 0 ? quota : left;
    auto& part = parts[remaining > 0];
    if (remaining > 0) --remaining;
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
