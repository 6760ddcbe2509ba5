#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/evaluation.h"
#include "attend/train/example_task.h"
#include "attend/train/masked_tokens.h"
#include "train/special_tokens.h"
#include "train/tasks/tasks.h"
#include "train/tasks/text_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace attend::train {
namespace {

constexpr uint64_t kMaskingSeed = 20181011;  // of the validation data

/// Returns the number of tokens of the text in a row. Throws InputError if there is no room for
/// one.
int64_t room_for_text(const Recipe& recipe, const SpecialTokens& special) {
  const auto room = recipe.max_seq_len() - special.size();
  if (room >= 1) return room;
  throw InputError(
      fmt::format("max_seq_len is {}, expected at least {}: a token and {} special tokens",
                  recipe.max_seq_len(), special.size() + 1, special.size()));
}

/// Makes the batches of a masked language model from the tokens of texts.
class MaskedRows {
 public:
  /// `tokenizer` has a mask token. Throws InputError if a row has no room for a token.
  MaskedRows(const Recipe& recipe, const Tokenizer& tokenizer)
      : special_(special_tokens_of(tokenizer)), room_(room_for_text(recipe, special_)) {
    options_ = {.mask_token = *tokenizer.mask_token(),
                .vocab_size = tokenizer.size(),
                .probability = recipe.data.mask_probability};
  }

  /// Number of tokens of the text in a row.
  int64_t room() const { return room_; }

  /// Returns the tokens of a text (B, U), int64, between special tokens, some of them masked. Equal
  /// states of the sampler mask the same tokens.
  Batch masked(const torch::Tensor& text, Sampler& sampler) const {
    const auto special = [&](const std::vector<int64_t>& ids) {
      return torch::tensor(ids, torch::kLong).expand({text.size(0), std::ssize(ids)});
    };
    const auto before = special(special_.before);
    const auto after = special(special_.after);
    const auto maskable =
        torch::cat({torch::zeros_like(before, torch::kBool), torch::ones_like(text, torch::kBool),
                    torch::zeros_like(after, torch::kBool)},
                   1);
    return mask_tokens(torch::cat({before, text, after}, 1), maskable, options_,
                       sampler.generator());
  }

  /// Returns the rows of a text, masked always in the same way, for each `size`. All but the last
  /// are full.
  std::vector<Batch> fixed_batches(const TextTokens& tokens, int64_t size) const {
    constexpr int64_t kRowsAtOnce = 1024;
    Sampler sampler(kMaskingSeed);
    const auto narrow = [](const torch::Tensor& tensor) {
      return tensor.scalar_type() == torch::kLong ? tensor.to(torch::kInt) : tensor;
    };
    std::vector<Batch> batches;
    const auto count = tokens.ids.size(0);
    for (int64_t begin = 0; begin < count;) {
      const auto whole = std::min((count - begin) / room_, kRowsAtOnce) * room_;
      const auto end = whole > 0 ? begin + whole : count;
      const auto text =
          tokens.at(torch::arange(begin, end)).view({-1, std::min(room_, end - begin)});
      for (auto& part : split_rows(map_batch(masked(text, sampler), narrow), size))
        batches.push_back(std::move(part));
      begin = end;
    }
    return batches;
  }

 private:
  SpecialTokens special_;
  int64_t room_;
  MaskingOptions options_;
};

/// Masked language modelling of text files. The validation data are files of their own or else the
/// last tokens of the texts. Training sequences start at random positions, and are masked anew each
/// time.
class MaskedLmTask : public Task {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.model = SequenceClassifierConfig{.masked_lm = true};
    recipe.max_seq_len() = 64;
    recipe.stack().num_layers = 4;
    recipe.stack().embed_dim = 128;
    recipe.data.problem_type = ProblemType::masked_lm;
    recipe.data.tokenizer = TokenizerKind::word;
    recipe.training.max_steps = 2000;
    recipe.training.batch_size = 32;
    recipe.training.lr = 1e-3;
    recipe.training.warmup_steps = 100;
    recipe.training.eval_every = 500;
    return recipe;
  }

  MaskedLmTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : splits_(read(recipe, std::move(tokenizer))), rows_(recipe, this->tokenizer()) {}

  const Tokenizer& tokenizer() const override { return *splits_.training.tokenizer; }
  Problem problem() const override { return {.type = ProblemType::masked_lm}; }
  Batch training_batch(int64_t size, Sampler& sampler) const override {
    return rows_.masked(splits_.training.random_windows(size, rows_.room(), sampler), sampler);
  }
  std::optional<int64_t> num_training_sequences() const override {
    return splits_.training.ids.size(0) / rows_.room();
  }
  std::vector<Batch> validation_batches(int64_t size) const override {
    return rows_.fixed_batches(splits_.validation, size);
  }
  std::string data_checksum() const override { return splits_.checksum; }
  std::vector<DataNote> data_notes() const override { return splits_.notes; }
  /// Parts of the validation text, with one masked token.
  std::vector<Example> samples() const override {
    constexpr int64_t kSamples = 5;
    constexpr int64_t kLength = 24;
    const auto count = splits_.validation.ids.size(0);
    const auto length = std::min({kLength, count, rows_.room()});
    std::vector<Example> samples;
    for (const auto part : spread(count / length, kSamples)) {
      const auto tokens = splits_.validation.at(torch::arange(length) + part * length);
      const auto* ids = tokens.const_data_ptr<int64_t>();
      samples.push_back(sample({ids, ids + length}));
    }
    return samples;
  }

 private:
  static TextSplits read(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer) {
    // A new tokenizer has no special tokens around a text.
    const auto special = tokenizer == nullptr ? SpecialTokens() : special_tokens_of(*tokenizer);
    return read_text_splits(recipe, std::move(tokenizer), room_for_text(recipe, special),
                            /*min_validation=*/1, /*masking=*/true);
  }

  /// Masks the token in the middle.
  Example sample(const std::vector<int64_t>& tokens) const {
    const auto& codes = tokenizer();
    const auto middle = tokens.begin() + std::ssize(tokens) / 2;
    const auto mask = codes.token(*codes.mask_token());
    const auto* vocabulary = dynamic_cast<const Vocabulary*>(&codes);
    const bool spaces = vocabulary == nullptr || vocabulary->kind() == TokenizerKind::word;
    const char* space = spaces ? " " : "";
    return {codes.decode({tokens.begin(), middle}) + space + mask + space +
                codes.decode({middle + 1, tokens.end()}),
            codes.decode({*middle})};
  }

  TextSplits splits_;
  MaskedRows rows_;
};

std::vector<Batch> batches_of_masked_text(const std::filesystem::path& path, const Recipe& recipe,
                                          const Tokenizer& tokenizer,
                                          const std::vector<std::string>&, int64_t size) {
  const auto tokens = read_text_of_run(path.string(), recipe, tokenizer, /*masking=*/true);
  if (tokens.ids.size(0) == 0)
    throw InputError(fmt::format("{}: expected at least one token, found none", path.string()));
  return MaskedRows(recipe, tokenizer).fixed_batches(tokens, size);
}

}  // namespace

TaskInfo masked_lm_task() {
  return {.name = "masked-lm",
          .summary = "masked words, characters or subwords of a text (BERT)",
          .defaults = MaskedLmTask::defaults(),
          .make = make<MaskedLmTask>,
          .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown",
                        "mask_probability", "keep_carriage_returns", "token_dir"},
          .batches_of_file = batches_of_masked_text};
}

}  // namespace attend::train
