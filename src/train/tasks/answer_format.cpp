#include "train/tasks/answer_format.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace attend::train {

void AnswerRows::add(PackedExample example) {
  auto& [tokens, is_answer] = example;
  while (!is_answer.empty() && !is_answer.back()) is_answer.pop_back();
  tokens.resize(is_answer.size());
  ++lengths_.examples;
  lengths_.longest = std::max<int64_t>(lengths_.longest, std::ssize(tokens));
  const auto max_tokens = static_cast<std::size_t>(max_seq_len_) + 1;
  const bool is_truncated = tokens.size() > max_tokens;
  if (is_truncated) {
    tokens.resize(max_tokens);
    is_answer.resize(max_tokens);
  }
  if (!is_answer.empty()) is_answer.front() = false;  // the first token is no target
  const auto targets = std::count(is_answer.begin(), is_answer.end(), true);
  if (targets == 0) {
    ++lengths_.left_out;
    return;
  }
  lengths_.truncated += is_truncated;
  lengths_.targets += targets;
  examples_.push_back(std::move(example));
}

Batch AnswerRows::rows() const {
  if (!examples_.empty()) return packed_rows(examples_, max_seq_len_);
  throw InputError(fmt::format(
      "found {} prompts without room for an answer in {} tokens, expected at least one with room; "
      "see --max-seq-len",
      lengths_.examples, max_seq_len_ + 1));
}

AnswerLengths& AnswerLengths::operator+=(const AnswerLengths& other) {
  examples += other.examples;
  targets += other.targets;
  truncated += other.truncated;
  left_out += other.left_out;
  longest = std::max(longest, other.longest);
  return *this;
}

std::string AnswerLengths::text(int64_t max_seq_len) const {
  return fmt::format(
      "{} of {} examples, after {} tokens; {} prompts without room for an answer are left out (the "
      "longest example has {} tokens)",
      truncated, examples, max_seq_len + 1, left_out, longest);
}

}  // namespace attend::train
