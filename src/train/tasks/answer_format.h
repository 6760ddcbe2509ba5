#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/answer_lengths.h"
#include "attend/train/example_task.h"

#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// A format of the files of the task `answers`.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  /// Reads the examples of files. Throws InputError if the tokenizer, unless it is null, cannot
  /// encode one; the message names file and line. `can_change`: see `check_text`.
  virtual std::vector<Example> read(const std::vector<std::string>& paths,
                                    const Tokenizer* tokenizer, bool can_change) const = 0;
  /// Returns an example as sequences for `packed_rows`, each of any length.
  virtual std::vector<PackedExample> encode(const Example& example,
                                            const Tokenizer& tokenizer) const = 0;
  /// Returns a prompt and an answer of an example, to show what the model answers; empty if the
  /// example has no prompt.
  virtual Example sample(const Example& example, const Tokenizer&) const { return example; }
};

/// Returns the format of chats: lists of messages in the column `messages_column` of .jsonl files.
/// The prompt of an example is the messages before the first answer, and its answer is the chat,
/// both as JSON. Throws InputError if the tokenizer is null or has no chat template.
std::unique_ptr<AnswerFormat> chat_format(const DataConfig& data, const Tokenizer* tokenizer);

/// Packs sequences of the task `answers` into rows, and counts what `max_seq_len` does to them.
class AnswerRows {
 public:
  explicit AnswerRows(int64_t max_seq_len) : max_seq_len_(max_seq_len) {}

  /// Adds a sequence without the tokens after its last answer. Removes the last tokens of one that
  /// is too long, and leaves it out if it then has no answer.
  void add(PackedExample example);

  /// Returns the rows. Throws InputError if all sequences are left out.
  Batch rows() const;
  /// The lengths of the sequences.
  const AnswerLengths& lengths() const { return lengths_; }

 private:
  int64_t max_seq_len_;
  std::vector<PackedExample> examples_;
  AnswerLengths lengths_;
};

}  // namespace attend::train
