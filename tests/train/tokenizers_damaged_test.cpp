#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/tokenizers.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

#include <gtest/gtest.h>

namespace attend::train {
namespace {

/// Loads a tokenizer from such a file; whatever is in it, it works or is refused.
void expect_use_or_refusal(const std::string& content) {
  const TemporaryDirectory directory;
  replace_file(directory / kTokenizerFile, content);
  try {
    const auto tokenizer = load_tokenizer(directory.path());
    for (int64_t id = 0; id < tokenizer->size(); ++id) tokenizer->token(id);
    const auto ids = tokenizer->encode("a cat");
    for (const auto id : ids) ASSERT_LT(id, tokenizer->size());
    tokenizer->decode(ids);
  } catch (const InputError&) {
  }
}

TEST(DamagedTokenizers, RandomBytesAreRefused) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) expect_use_or_refusal(random_bytes(60));
}

TEST(DamagedTokenizers, DamagedFilesWorkOrAreRefused) {
  seed_afresh();
  const std::string text = "a cat sat\non a mat\nand a cat sat\n";
  for (const auto unit : {TextUnit::character, TextUnit::byte, TextUnit::word, TextUnit::subword}) {
    const auto whole = make_tokenizer(unit, text, unit == TextUnit::subword ? 260 : 100)->files();
    for (int i = 0; i < 300; ++i) expect_use_or_refusal(damaged(whole.at(kTokenizerFile)));
  }
}

TEST(DamagedTokenizers, DeeplyNestedFilesAreRefused) {
  const std::string deep(100'000, '[');
  expect_use_or_refusal(deep);
  expect_use_or_refusal(R"({"unit": "subword", "merges": )" + deep + std::string(100'000, ']') +
                        "}");
}

}  // namespace
}  // namespace attend::train
