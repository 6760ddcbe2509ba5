#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/train/task.h"

#include <optional>
#include <string_view>
#include <vector>

namespace attend::train {

/// Layout of examples as rows of a batch. Rows with fewer than `length` tokens are padded at the
/// end. The functions below throw InputError if an example does not fit in a row (the message
/// quotes the example) or has tokens that are not in the vocabulary.
struct RowLayout {
  const Tokenizer& tokenizer;  ///< encodes prompts and answers
  int64_t padding;             ///< id of the padding token
  int64_t length;              ///< length of each row; a Seq2Seq has source rows and target rows of
                               ///< this length
  std::optional<TruncationSide> truncate = {};  ///< truncate longer texts instead of throwing;
                                                ///< ignored by `continuation_rows`
};

/// Returns at most `length` tokens: removes tokens from the given side.
///
///     truncated({1, 2, 3}, 2, TruncationSide::left) == std::vector<int64_t>{2, 3};
ATTEND_API std::vector<int64_t> truncated(std::vector<int64_t> tokens, int64_t length,
                                          TruncationSide side);

/// Tokens of a text as a model sees it.
struct EncodedText {
  std::vector<int64_t> tokens;  ///< with special tokens such as [CLS]
  int64_t num_tokens = 0;       ///< the same of the whole text

  /// True if tokens of the text are missing.
  bool is_truncated() const { return num_tokens > static_cast<int64_t>(tokens.size()); }
};

/// Returns the maximum number of tokens of a text: `max_seq_len` or, if it is less, that of the
/// tokenizer of a published model.
ATTEND_API int64_t max_text_tokens(const Tokenizer& tokenizer, int64_t max_seq_len);

/// Returns at most `max_text_tokens(tokenizer, max_tokens)` tokens of a text: removes tokens from
/// the given side, but no special tokens such as [CLS] and [SEP]. Throws InputError if the
/// tokenizer cannot encode the text.
///
///     auto tokens = encode_text(*run.tokenizer, "so bad", 128, TruncationSide::left).tokens;
ATTEND_API EncodedText encode_text(const Tokenizer& tokenizer, std::string_view text,
                                   int64_t max_tokens, TruncationSide side);

/// Returns a batch for a LanguageModel. Each row is a prompt followed by its answer. The tokens of
/// the answer are the targets. The last token of the answer is only a target, so a prompt and its
/// answer may together have up to length + 1 tokens. Also throws InputError if a prompt is empty.
ATTEND_API Batch continuation_rows(const std::vector<Example>& examples, const RowLayout& layout);

/// Tokens of an example for `packed_rows`.
struct PackedExample {
  std::vector<int64_t> tokens;  ///< prompts and answers, at least two tokens
  std::vector<bool> is_answer;  ///< of each token: true for answers, which are the targets
};

/// Returns a batch for a LanguageModel whose rows contain several examples one after the other.
/// Tokens attend only to those of their own example (`Batch::segments`), and positions begin with 0
/// in each (`Batch::positions`), so that the loss is that of the examples one by one. The last
/// token of an example is only a target. Each example, from the longest to the shortest, goes to
/// the row with the least space in which it fits. Throws c10::ValueError if there are no examples,
/// or if one has fewer than 2 or more than length + 1 tokens
/// or not one value of `is_answer` for each.
///
///     auto batch = packed_rows({{.tokens = {7, 3, 2}, .is_answer = {false, true, true}}}, 128);
ATTEND_API Batch packed_rows(const std::vector<PackedExample>& examples, int64_t length);

/// Returns a batch for a SequenceClassifier. Each row is a prompt. The targets follow from
/// `problem`: the index of the answer in `classes`, 0 or 1 for each of the `classes` (1 = in
/// `Example::labels`), or the number in the answer. Also throws InputError if an answer or a label
/// is not in `classes`, or is not a number.
ATTEND_API Batch classification_rows(const std::vector<Example>& examples, const RowLayout& layout,
                                     const std::vector<std::string>& classes,
                                     const Problem& problem = {});

/// Returns a batch for a SequenceClassifier with Pooling::none. Each row contains the words of an
/// example, see `encode_words`; the targets are the indices of `Example::labels` in `tags` at the
/// first token of each word, and `kIgnoreIndex` elsewhere. Sentences with more than `layout.length`
/// tokens are truncated at the end. Also throws InputError if a tag is not in `tags`, or if an
/// example has other numbers of tags and words.
ATTEND_API Batch tag_rows(const std::vector<Example>& examples, const RowLayout& layout,
                          const std::vector<std::string>& tags);

/// Returns a batch for a Seq2Seq. Source: the prompt. Decoder input: `bos_token`, then the answer.
/// Targets: the answer, then `eos_token`. An answer may have at most length - 1 tokens.
ATTEND_API Batch translation_rows(const std::vector<Example>& examples, const RowLayout& layout,
                                  int64_t bos_token, int64_t eos_token);

/// A task whose examples are generated. The checksum of an example's prompt determines whether the
/// example is training or validation data, so the training and validation data never overlap. The
/// validation data is the same for all seeds.
///
/// A subclass overrides `tokenizer`, `draw` and `rows`.
class ATTEND_API ExampleTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override;

 protected:
  /// Generates one example.
  virtual Example draw(Sampler& sampler) const = 0;
  /// Generates one example for the validation data. The example is discarded if the checksum of its
  /// prompt makes it training data, or if the validation data already contains its prompt. Calls
  /// `draw` by default. Override it to test generalization to examples that `draw` does not
  /// generate.
  virtual Example draw_validation(Sampler& sampler) const { return draw(sampler); }
  /// Converts examples to a batch; see `RowLayout`.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  std::vector<Example> validation_examples(std::size_t count) const;
};

/// A task with a fixed list of examples.
///
/// A subclass overrides `tokenizer` and `rows`, and calls `set_examples` at the end of its
/// constructor.
class ATTEND_API ListedTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::optional<int64_t> num_training_sequences() const override {
    return training_.tokens.size(0);
  }
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override { return samples_; }

 protected:
  /// Splits the examples into training and validation data. All examples with the same prompt go to
  /// the same part. The fraction `val_fraction` of the distinct prompts goes to the validation
  /// data; each part gets at least one prompt. The split is random but the same for all seeds.
  /// With `stratify`, this holds for the prompts of each answer, up to rounding, and each answer
  /// with two prompts or more has one in the training data. Throws InputError if there are fewer
  /// than two distinct prompts.
  void set_examples(const std::vector<Example>& examples, double val_fraction,
                    bool stratify = false);
  /// Sets training and validation data that are not parts of one list.
  void set_examples(const std::vector<Example>& training, const std::vector<Example>& validation);
  /// Converts examples to a batch; see `RowLayout`.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;
  /// Training data.
  const Batch& training() const { return training_; }

 private:
  Batch training_;
  Batch validation_;
  std::vector<Example> samples_;
};

/// Splits a batch into batches of at most `size` rows, in order.
ATTEND_API std::vector<Batch> split_rows(const Batch& batch, int64_t size);

}  // namespace attend::train
