#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class TextTask : public testing::Test {
 protected:
  Recipe recipe(const std::string& text, int64_t context) {
    replace_file(directory_ / "text", text);
    auto made = find_task("text").defaults;
    made.text = {(directory_ / "text").string()};
    made.max_seq_len() = context;
    return made;
  }
  static std::string digits(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += static_cast<char>('0' + i % 10);
    return text;
  }

  TemporaryDirectory directory_;
};

TEST_F(TextTask, ValidationVisitsEachCharacterOnce) {
  const auto task = make_task(recipe(digits(1000), 16));  // 100 for validation: 99 targets
  int64_t targets = 0;
  std::vector<int64_t> seen;
  for (const auto& batch : task->validation_batches(4)) {
    targets += batch.targets.numel();
    const auto flat = batch.targets.flatten();
    for (int64_t i = 0; i < flat.size(0); ++i) seen.push_back(flat[i].item<int64_t>());
  }
  EXPECT_EQ(targets, 99);
  EXPECT_EQ(task->tokenizer().decode(seen), digits(1000).substr(901));
}

TEST_F(TextTask, TrainingNeverSeesValidationData) {
  std::string text = std::string(900, 'a') + std::string(100, 'b');
  const auto task = make_task(recipe(text, 16));
  Sampler sampler(3);
  const auto batch = task->training_batch(2000, sampler);
  EXPECT_EQ(batch.targets.max().item<int64_t>(), task->tokenizer().encode("a").at(0));
}

TEST_F(TextTask, TargetsAreTheNextCharacters) {
  const auto task = make_task(recipe(digits(1000), 8));
  Sampler sampler(3);
  const auto batch = task->training_batch(5, sampler);
  EXPECT_TRUE(batch.targets.equal((batch.tokens + 1).remainder(10)));
}

TEST_F(TextTask, ThrowsForAFileShorterThanMaxSeqLen) {
  const auto made = recipe(digits(100), 10);  // validation: 10 characters
  EXPECT_THAT([&] { make_task(made); },
              throws_naming<InputError>("validation", "10 of 100", "11", "max_seq_len"));
  EXPECT_NO_THROW(make_task(recipe(digits(110), 10)));
}

TEST_F(TextTask, LongTextsAreEncodedInPiecesWithoutChangingTheTokens) {
  std::string text;  // longer than two pieces of 4 MiB
  for (int i = 0; text.size() < 9'500'000; ++i) text += fmt::format("ä{} {}\n", i, i % 7);
  for (const auto kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::word}) {
    auto made = recipe(text, 64);
    made.data.tokenizer = kind;
    made.data.val_fraction = 0.999;
    const auto task = make_task(made);
    const auto all = task->tokenizer().encode(text);
    std::vector<int64_t> seen;
    for (const auto& batch : task->validation_batches(1000)) {
      const auto targets = batch.targets.to(torch::kLong).contiguous();
      const auto* ids = targets.const_data_ptr<int64_t>();
      seen.insert(seen.end(), ids, ids + targets.numel());
    }
    const auto skipped = static_cast<std::ptrdiff_t>(all.size() - seen.size());
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), all.begin() + skipped)) << to_string(kind);
  }
}

TEST_F(TextTask, ALongTextWithWindowsLineBreaksHasTheTokensOfOneWithout) {
  std::string text;  // longer than two pieces of 1 MiB
  for (int i = 0; text.size() < 2'500'000; ++i) text += fmt::format("{} {}\n", i, i % 7);
  std::string windows;
  for (const char c : text) windows += c == '\n' ? "\r\n" : std::string(1, c);
  auto made = recipe("0123456789 \n" + digits(1000), 64);
  const auto task = make_task(made);
  replace_file(directory_ / "lf", text);
  replace_file(directory_ / "crlf", windows);
  const auto tokens_of = [&](const char* name) {
    const auto batches = find_task("text").batches_of_file(directory_ / name, made,
                                                           task->tokenizer(), {}, int64_t{1} << 20);
    return batches.at(0).tokens;
  };
  EXPECT_TRUE(tokens_of("crlf").equal(tokens_of("lf")));
}

TEST_F(TextTask, ValidationTextIsTheValidationData) {
  auto made = recipe(digits(100), 16);
  made.data.val_text = {(directory_ / "val").string()};
  replace_file(made.data.val_text.front(), digits(35));
  const auto task = make_task(made);
  int64_t targets = 0;
  for (const auto& batch : task->validation_batches(4)) targets += batch.targets.numel();
  EXPECT_EQ(targets, 34);
  Sampler sampler(3);
  const auto starts = task->training_batch(2000, sampler).tokens.select(1, 0);
  EXPECT_EQ(std::get<0>(at::_unique(starts)).size(0), 10);
  const auto checksum = task->data_checksum();
  replace_file(made.data.val_text.front(), digits(36));
  EXPECT_NE(make_task(made)->data_checksum(), checksum);
  replace_file(made.data.val_text.front(), digits(16));
  EXPECT_THAT([&] { make_task(made); },
              throws_naming<InputError>(made.data.val_text.front(), "16", "max_seq_len"));
}

TEST_F(TextTask, SeveralTextsAreJoinedWithLineBreaks) {
  auto made = recipe(digits(30) + "\n", 8);
  for (const char* name : {"second", "third"}) {
    made.text.push_back((directory_ / name).string());
    replace_file(made.text.back(), digits(20));
    made.data.val_text.push_back(made.text.back());
  }
  const auto task = make_task(made);
  EXPECT_EQ(task->tokenizer().size(), 11);  // digits and the line break
  EXPECT_EQ(*task->num_training_sequences(), (31 + 21 + 20) / 8);
  const auto batch = task->validation_batches(100);
  int64_t targets = 0;
  for (const auto& each : batch) targets += each.targets.numel();
  EXPECT_EQ(targets, 21 + 20 - 1);
}

TEST_F(TextTask, UnknownCharactersOfOneOfSeveralTextsNameIt) {
  auto made = recipe(digits(100), 8);
  for (const char* name : {"first", "second"}) {
    made.data.val_text.push_back((directory_ / name).string());
    replace_file(made.data.val_text.back(), digits(20));
  }
  replace_file(made.data.val_text.back(), digits(20) + "\n");
  EXPECT_THAT([&] { make_task(made); }, testing::Throws<InputError>());
  replace_file(made.data.val_text.front(), digits(20) + "ß" + digits(20));
  EXPECT_THAT([&] { make_task(made); },
              throws_naming<InputError>(made.data.val_text.front(), "line 1, column 21"));
}

TEST_F(TextTask, TheFirstUnknownCharacterOfALongTextIsNamed) {
  auto made = recipe(digits(100) + "\n", 8);
  made.data.val_text = {(directory_ / "val").string()};
  std::string text;  // four pieces of 4 MiB; the last two have unknown characters
  for (int i = 0; i < 1'600'000; ++i) text += "012345678\n";
  text[9'999'990] = 'a';
  text[14'999'990] = 'b';
  replace_file(made.data.val_text.front(), text);
  EXPECT_THAT([&] { make_task(made); }, throws_naming<InputError>("'a'", "line 1000000, column 1"));
}

TEST_F(TextTask, UnknownCharactersOfTheValidationTextAreErrorsOrReplaced) {
  auto made = recipe(digits(100), 8);
  made.data.val_text = {(directory_ / "val").string()};
  replace_file(made.data.val_text.front(), digits(10) + "234\n123ß");
  EXPECT_THAT([&] { make_task(made); },
              throws_naming<InputError>(made.data.val_text.front(), "line 1, column 14",
                                        "unknown = replace"));
  made.data.unknown = UnknownCharacters::replace;
  const auto task = make_task(made);
  EXPECT_EQ(task->tokenizer().size(), 11);
  const auto unknown = task->tokenizer().encode("ß").at(0);
  const auto batch = task->validation_batches(100).back();
  EXPECT_EQ(batch.targets.flatten()[-1].item<int64_t>(), unknown);
}

TEST_F(TextTask, OptionsAreNamedOnlyIfTheTokenizerCanChange) {
  auto made = recipe(digits(100), 8);
  made.data.val_text = {(directory_ / "val").string()};
  replace_file(made.data.val_text.front(), digits(20) + "ß");
  const auto tokenizer =
      std::shared_ptr<const Tokenizer>(make_tokenizer(TokenizerKind::character, digits(100), 0));
  EXPECT_THAT([&] { make_task(made); }, throws_naming<InputError>("'ß'", "unknown = replace"));
  EXPECT_THAT([&] { make_task(made, tokenizer); },
              ThrowsMessage<InputError>(
                  testing::AllOf(Names("'ß'"), testing::Not(HasSubstr("unknown = replace")))));
}

TEST_F(TextTask, AByteTokenizerAcceptsAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  auto made = recipe(bytes + bytes, 16);
  made.data.val_text = {(directory_ / "val").string()};
  replace_file(made.data.val_text.front(), bytes);
  EXPECT_THAT([&] { make_task(made); }, throws_naming<InputError>(made.text.front(), "0x00"));
  made.data.tokenizer = TokenizerKind::byte;
  const auto task = make_task(made);
  EXPECT_EQ(*task->num_training_sequences(), 32);
  std::string seen(1, bytes.front());
  for (const auto& batch : task->validation_batches(4)) {
    const auto targets = batch.targets.flatten();
    for (int64_t i = 0; i < targets.numel(); ++i)
      seen += static_cast<char>(targets[i].item<int64_t>());
  }
  EXPECT_EQ(seen, bytes);
}

TEST_F(TextTask, ALongTextOfBytesIsEncodedInPieces) {
  constexpr std::size_t kSize = std::size_t{10} << 20;
  auto made = recipe(std::string(kSize, '\x80'), 16);
  made.data.tokenizer = TokenizerKind::byte;
  EXPECT_EQ(*make_task(made)->num_training_sequences(),
            static_cast<int64_t>((kSize - kSize / 10) / 16));
}

TEST_F(TextTask, ChecksumDiffersBetweenTexts) {
  const auto checksum = make_task(recipe(digits(1000), 8))->data_checksum();
  auto changed = digits(1000);
  EXPECT_EQ(make_task(recipe(changed, 8))->data_checksum(), checksum);
  std::swap(changed[500], changed[501]);
  EXPECT_NE(make_task(recipe(changed, 8))->data_checksum(), checksum);
}

}  // namespace
}  // namespace attend::train
