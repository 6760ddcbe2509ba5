#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/subword_tokenizer.h"
#include "attend/train/tokenizers.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

#include <gtest/gtest.h>

namespace attend::train {
namespace {

const std::string kText = "a cat sat\non a mat\n";

/// Loads a tokenizer from files like these; whatever is in them, it works or is refused.
void expect_use_or_refusal(const std::map<std::string, std::string>& files) {
  const TemporaryDirectory directory;
  for (const auto& [name, content] : files) replace_file(directory / name, content);
  try {
    const auto tokenizer = load_tokenizer(directory.path());
    const auto ids = tokenizer->encode("a cat");
    for (const auto id : ids) ASSERT_LT(id, tokenizer->size());
    tokenizer->decode(ids);
    for (int64_t id = 0; id < tokenizer->size(); ++id) tokenizer->token(id);
  } catch (const InputError&) {
  }
}

TEST(DamagedTokenizers, RandomBytesAreRefused) {
  seed_afresh();
  const auto subword = make_tokenizer(TextUnit::subword, kText, 270)->files();
  for (int i = 0; i < 200; ++i) {
    expect_use_or_refusal({{kTokenizerFile, random_bytes(60)}});
    auto files = subword;
    files[kSubwordModelFile] = random_bytes(200);
    expect_use_or_refusal(files);
  }
}

TEST(DamagedTokenizers, DamagedDescriptionsWorkOrAreRefused) {
  seed_afresh();
  for (const auto unit : {TextUnit::character, TextUnit::byte, TextUnit::word, TextUnit::subword}) {
    const auto whole = make_tokenizer(unit, kText, unit == TextUnit::subword ? 270 : 100)->files();
    for (int i = 0; i < 100; ++i) {
      auto files = whole;
      files[kTokenizerFile] = damaged(files[kTokenizerFile]);
      expect_use_or_refusal(files);
    }
  }
}

TEST(DamagedTokenizers, DamagedModelsWorkOrAreRefused) {
  seed_afresh();
  const auto whole = make_tokenizer(TextUnit::subword, kText, 270)->files();
  for (int i = 0; i < 500; ++i) {
    auto files = whole;
    files[kSubwordModelFile] = damaged(files[kSubwordModelFile]);
    expect_use_or_refusal(files);
  }
}

TEST(DamagedTokenizers, ModelsWithRandomFieldsWorkOrAreRefused) {
  seed_afresh();
  const auto whole = make_tokenizer(TextUnit::subword, kText, 270)->files();
  for (int i = 0; i < 500; ++i) {
    auto files = whole;
    auto content = random_bytes(100);
    // One of the messages that a model holds: pieces (1), or how it was made (2 to 5).
    content =
        static_cast<char>(draw(1, 5) << 3 | 2) + (static_cast<char>(content.size()) + content);
    files[kSubwordModelFile] += content;
    expect_use_or_refusal(files);
  }
}

TEST(DamagedTokenizers, TablesOfReplacementsAreRefused) {
  seed_afresh();
  const auto whole = make_tokenizer(TextUnit::subword, kText, 270)->files();
  for (int i = 0; i < 100; ++i) {
    auto files = whole;
    auto table = std::string("\x10\0\0\0", 4) + random_bytes(16);
    table.resize(30, 'z');
    const char spec = draw(0, 1) == 0 ? '\x1A' : '\x2A';  // normalizer_spec, denormalizer_spec
    files[kSubwordModelFile] += spec + ("\x20\x12\x1E" + table);
    const TemporaryDirectory directory;
    for (const auto& [name, content] : files) replace_file(directory / name, content);
    EXPECT_THROW(load_tokenizer(directory.path()), InputError);
  }
}

}  // namespace
}  // namespace attend::train
