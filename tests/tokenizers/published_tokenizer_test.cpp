#include "attend/tokenizers/published_tokenizer.h"

#include "attend/input_error.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"

#include <gmock/gmock.h>

#include <fstream>
#include <stdexcept>

namespace attend {
namespace {

using nlohmann::json;
using testing::ElementsAre;

/// A tokenizer that pads and truncates to 3 tokens.
TextTokenizer padded() {
  const json model{
      {"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab_of({"?", "a", "b", "\t"})}};
  auto parts = tokenizer_json(model, {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}}});
  parts["padding"] = {{"strategy", {{"Fixed", 3}}},
                      {"direction", "Right"},
                      {"pad_to_multiple_of", nullptr},
                      {"pad_id", 0},
                      {"pad_type_id", 0},
                      {"pad_token", "?"}};
  parts["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
  return TextTokenizer::parse(parts.dump());
}

TEST(PublishedTokenizer, TruncatesAsTheModelAndDoesNotPad) {
  EXPECT_THAT(padded().encode("a b").ids, ElementsAre(1, 2, 0));
  EXPECT_THAT(PublishedTokenizer(padded(), {.vocab_size = 4}).encode("a b a b"),
              ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(PublishedTokenizer(padded(), {.vocab_size = 4, .max_length = 2}).encode("a b a"),
              ElementsAre(1, 2));
}

TEST(PublishedTokenizer, HasTheSizeOfTheModel) {
  const PublishedTokenizer tokenizer(padded(), {.vocab_size = 6});
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(tokenizer.token(1), "a");
  EXPECT_EQ(tokenizer.token(3), "\\x09");
  EXPECT_EQ(tokenizer.token(5), "");
  EXPECT_EQ(tokenizer.decode({1, 5, 2}), "a b");
  EXPECT_THROW(tokenizer.decode({6}), std::out_of_range);
  EXPECT_THROW(tokenizer.token(-1), std::out_of_range);
  EXPECT_THAT([] { PublishedTokenizer(padded(), {.vocab_size = 2}).encode("a b"); },
              throws_naming<InputError>("'b'", "2", "id"));
}

struct LoadPublishedTokenizer : testing::Test {
  TemporaryDirectory directory;

  void write(const std::map<std::string, std::string>& files) const {
    for (const auto& [name, text] : files) std::ofstream(directory.path() / name) << text;
  }
};

TEST_F(LoadPublishedTokenizer, LoadsItsFiles) {
  EXPECT_EQ(load_published_tokenizer(directory.path()), nullptr);
  const PublishedTokenizer tokenizer(
      padded(), {.vocab_size = 6, .model_type = "llama", .eos_tokens = {2, 3}, .max_length = 2});
  write(tokenizer.files());
  const auto loaded = load_published_tokenizer(directory.path());
  EXPECT_EQ(loaded->files(), tokenizer.files());
  EXPECT_EQ(loaded->model().model_type, "llama");
  EXPECT_THAT(loaded->model().eos_tokens, ElementsAre(2, 3));
  EXPECT_EQ(loaded->size(), 6);
  EXPECT_THAT(loaded->encode("a b a"), ElementsAre(1, 2));
}

TEST_F(LoadPublishedTokenizer, MessagesNameFileAndKey) {
  auto files = PublishedTokenizer(padded(), {.vocab_size = 6}).files();
  const auto load = [&] { load_published_tokenizer(directory.path()); };
  for (const auto& [text, named] : std::map<std::string, std::string>{
           {"{", "published.json"},
           {R"({"vocab_size": 0, "model_type": "", "eos_tokens": []})", "vocab_size"},
           {R"({"vocab_size": 6, "model_type": 1, "eos_tokens": []})", "model_type"},
           {R"({"vocab_size": 6, "model_type": "", "eos_tokens": [], "more": 1})", "more"}}) {
    files[kPublishedFile] = text;
    write(files);
    EXPECT_THAT(load, throws_naming<InputError>(kPublishedFile, named)) << text;
  }
}

}  // namespace
}  // namespace attend
