#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizers.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/subwords.h"
#include "support/temporary_directory.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

/// Writes `files` (content by file name), loads a tokenizer from them and uses it. Loading and
/// using the tokenizer must either succeed or throw InputError.
void expect_works_or_throws(const std::map<std::string, std::string>& files) {
  const TemporaryDirectory directory;
  for (const auto& [name, content] : files) replace_file(directory / name, content);
  try {
    const auto tokenizer = load_tokenizer(directory.path());
    for (int64_t id = 0; id < tokenizer->size(); ++id) tokenizer->token(id);
    const auto ids = tokenizer->encode("a cat");
    for (const auto id : ids) ASSERT_LT(id, tokenizer->size());
    tokenizer->decode(ids);
  } catch (const InputError&) {
  }
}

TEST(DamagedTokenizers, RandomBytesNeverCrash) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) expect_works_or_throws({{kTokenizerFile, random_bytes(60)}});
}

TEST(DamagedTokenizers, DamagedFilesWorkOrThrow) {
  seed_afresh();
  const std::string text = "a cat sat\non a mat\nand a cat sat\n";
  for (const auto kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::word}) {
    const auto whole = make_tokenizer(kind, text, 100)->files().at(kTokenizerFile);
    for (int i = 0; i < 300; ++i) expect_works_or_throws({{kTokenizerFile, damaged(whole)}});
  }
}

class DamagedSubwords : public SubwordTest {};

TEST_F(DamagedSubwords, WorkOrThrow) {
  seed_afresh();
  const auto whole = make_tokenizer(TokenizerKind::subword, "a cat sat\non a mat\n", 270)->files();
  for (int i = 0; i < 500; ++i) {
    auto files = whole;
    auto& content = files.at(i % 10 == 0 ? kTokenizerFile : kSubwordFile);
    content = damaged(content);
    expect_works_or_throws(files);
  }
  for (int i = 0; i < 300; ++i) {
    expect_works_or_throws(
        {{kTokenizerFile, whole.at(kTokenizerFile)}, {kSubwordFile, random_bytes(60)}});
  }
}

TEST(DamagedTokenizers, DeeplyNestedFilesNeverCrash) {
  const std::string deep(100'000, '[');
  expect_works_or_throws({{kTokenizerFile, deep}});
  const auto closed =
      R"({"tokenizer": "word", "tokens": )" + deep + std::string(100'000, ']') + "}";
  expect_works_or_throws({{kTokenizerFile, closed}});
}

}  // namespace
}  // namespace attend
