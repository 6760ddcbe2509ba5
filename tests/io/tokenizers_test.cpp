#include "attend/io/tokenizers.h"

#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/vocabulary.h"
#include "io/files.h"
#include "support/subwords.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kTwoLines = "a cat sat\non a mat\n";

int64_t size_of(TokenizerKind kind) {
  return kind == TokenizerKind::subword ? 270 : 100;
}

void save(const Tokenizer& tokenizer, const TemporaryDirectory& directory) {
  for (const auto& [name, content] : tokenizer.files()) replace_file(directory / name, content);
}

class EachTokenizerKind : public testing::TestWithParam<TokenizerKind> {
 protected:
  void SetUp() override {
    if (GetParam() == TokenizerKind::subword && !kSubwordsWork) {
      GTEST_SKIP() << "subword tokenizers do not work with AddressSanitizer";
    }
  }
};

TEST_P(EachTokenizerKind, DecodeInvertsEncode) {
  const auto tokenizer = make_tokenizer(GetParam(), kTwoLines, size_of(GetParam()));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(kTwoLines)), kTwoLines);
}

TEST_P(EachTokenizerKind, FilesRoundTrip) {
  const auto tokenizer = make_tokenizer(GetParam(), kTwoLines, size_of(GetParam()));
  const TemporaryDirectory directory;
  save(*tokenizer, directory);
  EXPECT_THAT(read_text(directory / kTokenizerFile), HasSubstr("\"tokenizer\":"));
  const auto loaded = load_tokenizer(directory.path());
  EXPECT_EQ(loaded->size(), tokenizer->size());
  EXPECT_EQ(loaded->files(), tokenizer->files());
  EXPECT_EQ(loaded->encode(kTwoLines), tokenizer->encode(kTwoLines));
}

TEST_P(EachTokenizerKind, TokensArePrintable) {
  const auto tokenizer = make_tokenizer(GetParam(), kTwoLines, size_of(GetParam()));
  for (int64_t id = 0; id < tokenizer->size(); ++id) {
    const auto text = tokenizer->token(id);
    EXPECT_FALSE(text.empty()) << id;
    EXPECT_EQ(text.find_first_of("\n\t\r"), std::string::npos) << id;
  }
  EXPECT_THROW(tokenizer->token(tokenizer->size()), std::out_of_range);
  EXPECT_THROW(tokenizer->decode({-1}), std::out_of_range);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, EachTokenizerKind,
                         testing::Values(TokenizerKind::character, TokenizerKind::byte,
                                         TokenizerKind::word, TokenizerKind::subword),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(TokenizerKind, EveryEnumeratorHasAName) {
  EXPECT_EQ(EnumNames<TokenizerKind>::names.size(), 5u);
  for (const auto name : EnumNames<TokenizerKind>::names) {
    EXPECT_EQ(to_string(*from_string<TokenizerKind>(name)), name);
  }
  EXPECT_EQ(to_string(TokenizerKind::subword), "subword");
}

TEST(MakeTokenizer, MaxSizeLimitsWords) {
  EXPECT_EQ(make_tokenizer(TokenizerKind::word, kTwoLines, 4)->size(), 4);
  EXPECT_EQ(make_tokenizer(TokenizerKind::word, kTwoLines, 0)->size(),
            6);  // including the line break
}

class LoadSubwords : public SubwordTest {};

TEST_F(LoadSubwords, ErrorsNameTheInvalidFile) {
  const TemporaryDirectory directory;
  const auto load = [&] { load_tokenizer(directory.path()); };
  const auto files = make_tokenizer(TokenizerKind::subword, kTwoLines, 270)->files();
  replace_file(directory / kTokenizerFile, files.at(kTokenizerFile));
  EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("tokenizer.model: no such file")));
  const auto& model = files.at(kSubwordFile);
  for (const auto& other : {std::string(), std::string("[]"), model.substr(0, 3000)}) {
    replace_file(directory / kSubwordFile, other);
    EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("tokenizer.model: not a SentenceP")));
  }
  replace_file(directory / kSubwordFile, model);
  EXPECT_EQ(load_tokenizer(directory.path())->size(), 270);
}

TEST(LoadTokenizer, ErrorsNameTheInvalidFile) {
  const TemporaryDirectory directory;
  const auto load = [&] { load_tokenizer(directory.path()); };
  EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("tokenizer.json: no such file")));
  for (const char* json :
       {"", "[", "[]", "{}", "{\"tokenizer\": 1}", R"({"tokenizer": "syllable"})",
        R"({"tokenizer": "word"})", R"({"tokenizer": "byte", "tokens": ["a"]})",
        R"({"tokenizer": "subword", "tokens": ["a"]})",
        R"({"tokenizer": "word", "tokens": ["a"], "more": 1})"}) {
    replace_file(directory / kTokenizerFile, json);
    EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("tokenizer.json: "))) << json;
  }
}

}  // namespace
}  // namespace attend
