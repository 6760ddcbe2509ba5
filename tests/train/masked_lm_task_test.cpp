#include "attend/input_error.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/masked_tokens.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::HasSubstr;

/// Words with the special tokens [CLS] and [SEP] around a text.
std::shared_ptr<const Tokenizer> words_with_special_tokens() {
  const nlohmann::json post{
      {"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}};
  const auto json =
      tokenizer_json({{"type", "WordPiece"},
                      {"unk_token", "[UNK]"},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", vocab_of({"[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"})}},
                     {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"post_processor", post},
                      {"added_tokens", {added_token(3, "[MASK]", {{"special", true}})}}});
  return std::make_shared<PublishedTokenizer>(TextTokenizer::parse(json.dump()),
                                              PublishedModel{.vocab_size = 7});
}

class MaskedTextTask : public testing::Test {
 protected:
  MaskedTextTask() {
    recipe_.max_seq_len() = 8;
    recipe_.data.tokenizer = TokenizerKind::character;
    recipe_.text = {write("text", letters(500))};
  }

  std::string write(const std::string& name, const std::string& text) {
    replace_file(directory_ / name, text);
    return directory_ / name;
  }
  static std::string letters(int64_t count, const std::string& separator = "") {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += std::string(1, "abc"[i * i % 97 % 3]) + separator;
    return text;
  }
  /// Returns the rows of the validation data before they were masked, one after the other.
  static std::vector<int64_t> unmasked(const Task& task, int64_t size) {
    std::vector<int64_t> ids;
    for (const auto& narrow : task.validation_batches(size)) {
      const auto batch = with_int64(narrow);
      EXPECT_LE(batch.tokens.size(0), size);
      const auto is_target = batch.targets.ne(kIgnoreIndex);
      EXPECT_TRUE(is_target.any(-1).all().item<bool>()) << "each row has a target";
      const auto row = torch::where(is_target, batch.targets, batch.tokens).flatten().contiguous();
      ids.insert(ids.end(), row.const_data_ptr<int64_t>(),
                 row.const_data_ptr<int64_t>() + row.numel());
    }
    return ids;
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = find_task("masked-lm").defaults;
};

TEST_F(MaskedTextTask, ValidationRowsAreTheWholeText) {
  const auto text = letters(1025 * 8 + 3);  // more rows than are masked at once, and a short one
  recipe_.data.val_text = {write("val", text)};
  const auto task = make_task(recipe_);
  const auto expected = task->tokenizer().encode(text);
  EXPECT_EQ(unmasked(*task, 7), expected);
  EXPECT_EQ(unmasked(*task, 5000), expected);
}

TEST_F(MaskedTextTask, SpecialTokensAreAroundEachRowAndNeverMasked) {
  recipe_.text = {write("text", letters(500, " "))};
  recipe_.data.val_text = {write("val", letters(6 * 50 + 1, " "))};
  recipe_.data.tokenizer = TokenizerKind::published;
  const auto task = make_task(recipe_, words_with_special_tokens());
  std::vector<int64_t> text;
  for (const auto& batch : task->validation_batches(64)) {
    const auto rows = with_int64(batch);
    const auto length = rows.tokens.size(1);
    for (const auto& [at, token] : {std::pair<int64_t, int64_t>(0, 1), {length - 1, 2}}) {
      EXPECT_TRUE(rows.tokens.select(1, at).eq(token).all().item<bool>());
      EXPECT_TRUE(rows.targets.select(1, at).eq(kIgnoreIndex).all().item<bool>());
    }
  }
  auto found = unmasked(*task, 64);
  std::erase_if(found, [](int64_t token) { return token == 1 || token == 2; });
  std::vector<int64_t> expected;
  for (const auto letter : letters(6 * 50 + 1)) expected.push_back(4 + letter - 'a');
  EXPECT_EQ(found, expected);
}

TEST_F(MaskedTextTask, SamplesHaveTheirMaskWithinMaxSeqLen) {
  const auto task = make_task(recipe_);
  ASSERT_FALSE(task->samples().empty());
  for (const auto& sample : task->samples()) {
    EXPECT_THAT(sample.prompt, HasSubstr("[MASK]"));
    EXPECT_LE(sample.prompt.size(), 7 + std::string("[MASK]").size());
    EXPECT_EQ(sample.answer.size(), 1);
  }
}

TEST_F(MaskedTextTask, ValidationTextMayBeShorterThanARow) {
  recipe_.data.val_text = {write("val", "ab")};
  const auto task = make_task(recipe_);
  EXPECT_EQ(unmasked(*task, 4), task->tokenizer().encode("ab"));
}

TEST_F(MaskedTextTask, TooFewTokensOrPositionsAreRefused) {
  recipe_.text = {write("short", letters(7))};
  recipe_.data.val_text = {write("val", "ab")};
  EXPECT_THAT([&] { make_task(recipe_); }, throws_naming<InputError>("training", "7", "8"));
  recipe_.max_seq_len() = 2;
  recipe_.data.tokenizer = TokenizerKind::published;
  EXPECT_THAT([&] { make_task(recipe_, words_with_special_tokens()); },
              throws_naming<InputError>("max_seq_len", "2", "3"));
}

}  // namespace
}  // namespace attend::train
