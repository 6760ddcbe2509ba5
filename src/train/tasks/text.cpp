#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/train/text_windows.h"
#include "train/tasks/tasks.h"
#include "train/tasks/text_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace attend::train {
namespace {

/// Returns the first complete, non-empty line after the first newline of a text. Skips the part
/// before this newline, since the text may begin in the middle of a line. Returns the whole text if
/// there is no such line.
std::string first_line(const std::string& text) {
  const auto begin = text.find_first_not_of('\n', text.find('\n'));
  const auto end = text.find('\n', begin);
  return end == std::string::npos ? text : text.substr(begin, end + 1 - begin);
}

/// Language modelling of text files. The validation data are files of its own or else the last
/// tokens of the texts. It is evaluated in non-overlapping windows. Training sequences start at
/// random positions in the rest of the text. The vocabulary is built from the text, but not
/// from a validation file.
class TextTask : public Task {
 public:
  /// Default recipe: four layers of width 128. The model trains on a megabyte of English in minutes
  /// on a CPU.
  static Recipe defaults() {
    Recipe recipe;
    recipe.stack().num_layers = 4;
    recipe.stack().embed_dim = 128;
    recipe.stack().positions = PositionScheme::rotary;
    recipe.training.max_steps = 2000;
    recipe.training.batch_size = 12;
    recipe.training.min_lr_ratio = 0.05;
    recipe.training.warmup_steps = 100;
    recipe.training.eval_every = 500;
    return recipe;
  }

  /// Reads `recipe.text` and `recipe.data.val_text`. Throws InputError if a file is missing, empty
  /// or, unless the tokenizer encodes bytes, not UTF-8, if the tokenizer cannot encode the
  /// validation text, or if training or validation data have fewer than max_seq_len + 1 tokens.
  TextTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : context_(recipe.max_seq_len()),
        splits_(read_text_splits(recipe, std::move(tokenizer), context_ + 1, context_ + 1)) {
    const auto start = splits_.validation.ids.narrow(0, 0, context_).to(torch::kLong);
    const auto* ids = start.const_data_ptr<int64_t>();
    prompt_ = first_line(this->tokenizer().decode({ids, ids + context_}));
  }

  const Tokenizer& tokenizer() const override { return *splits_.training.tokenizer; }
  Batch training_batch(int64_t size, Sampler& sampler) const override {
    const auto windows = splits_.training.random_windows(size, context_ + 1, sampler);
    const auto part = [&](int64_t begin) {
      return windows.narrow(1, begin, context_).contiguous();  // (B, T)
    };
    return {part(0), part(1)};
  }
  std::optional<int64_t> num_training_sequences() const override {
    return splits_.training.ids.size(0) / context_;
  }
  std::vector<Batch> validation_batches(int64_t size) const override {
    return text_windows(splits_.validation.ids, context_, size);
  }
  std::string data_checksum() const override { return splits_.checksum; }
  std::vector<DataNote> data_notes() const override { return splits_.notes; }
  std::vector<Example> samples() const override { return {{prompt_, ""}}; }

 private:
  int64_t context_;
  TextSplits splits_;
  std::string prompt_;
};

std::vector<Batch> batches_of_text(const std::filesystem::path& path, const Recipe& recipe,
                                   const Tokenizer& tokenizer, const std::vector<std::string>&,
                                   int64_t size) {
  const auto tokens = read_text_of_run(path.string(), recipe, tokenizer).ids;
  return with_source(path.string(),
                     [&] { return text_windows(tokens, recipe.max_seq_len(), size); });
}

}  // namespace

std::vector<Batch> text_windows(const torch::Tensor& tokens, int64_t context, int64_t size) {
  if (tokens.size(0) < 2) {
    throw InputError(fmt::format("expected at least two tokens, found {}", tokens.size(0)));
  }
  const int64_t predicted = tokens.size(0) - 1;
  const int64_t whole = predicted / context * context;
  std::vector<Batch> batches;
  for (int64_t begin = 0; begin < predicted;) {
    const int64_t end = begin < whole ? std::min(begin + size * context, whole) : predicted;
    const auto part = tokens.slice(0, begin, end + 1);
    const auto rows = [&](int64_t shift) {  // views, since targets repeat all tokens but one
      const auto row = part.slice(0, shift, shift + end - begin);
      return row.view({-1, std::min(context, end - begin)});  // (B, T)
    };
    batches.push_back({rows(0), rows(1)});
    begin = end;
  }
  return batches;
}

TaskInfo text_task() {
  return {.name = "text",
          .summary = "next character, byte, word or subword of a text",
          .defaults = TextTask::defaults(),
          .make = make<TextTask>,
          .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown",
                        "keep_carriage_returns", "token_dir"},
          .batches_of_file = batches_of_text};
}

}  // namespace attend::train
