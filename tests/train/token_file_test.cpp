#include "train/token_file.h"

#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "attend/io/safetensors.h"
#include "attend/io/vocabulary.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace attend::train {
namespace {

using testing::ElementsAre;
using testing::Pair;

class TokenFiles : public testing::Test {
 protected:
  /// Writes a file with the tokens `ids`, two of them at a time.
  void write(const std::vector<int32_t>& ids) {
    write_token_file(path_, vocabulary_, torch::kInt, [&](const auto& write) {
      const auto* bytes = reinterpret_cast<const char*>(ids.data());
      for (std::size_t i = 0; i < ids.size(); i += 2)
        write({bytes + 4 * i, 4 * std::min<std::size_t>(2, ids.size() - i)});
      return std::map<std::string, std::string>{{"format", "test"}};
    });
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "tokens.safetensors";
  Vocabulary vocabulary_ = Vocabulary::of_characters("abc");
};

TEST_F(TokenFiles, HaveTokensTokenizerAndMetadata) {
  write({0, 2, 1});
  const TokenFile file(path_);
  EXPECT_EQ(file.num_tokens(), 3);
  EXPECT_EQ(file.dtype(), torch::kInt);
  const std::vector<int32_t> expected{0, 2, 1};
  EXPECT_EQ(file.bytes(), std::string_view(reinterpret_cast<const char*>(expected.data()), 12));
  EXPECT_EQ(file.tokenizer_files(), vocabulary_.files());
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "test")));
}

TEST_F(TokenFiles, AreSafetensorsFiles) {
  write({0, 2, 1});
  const auto content = load_safetensors(path_);
  EXPECT_TRUE(content.tensors.at("tokens").equal(torch::tensor({0, 2, 1}, torch::kInt)));
  EXPECT_EQ(content.tensors.at("tokenizer/tokenizer.json").scalar_type(), torch::kByte);
}

TEST_F(TokenFiles, AreNotWrittenIfTheTokenizationFails) {
  write({0, 2, 1});
  const auto fail = [&] {
    write_token_file(path_, vocabulary_, torch::kInt,
                     [](const auto& write) -> std::map<std::string, std::string> {
                       write("0123");
                       throw InputError("a reason");
                     });
  };
  EXPECT_THAT(fail, throws_naming<InputError>("a reason"));
  EXPECT_EQ(TokenFile(path_).num_tokens(), 3);
}

TEST_F(TokenFiles, OfOtherKindsAreRefused) {
  const auto tokens = torch::zeros({4}, torch::kInt);
  for (const auto& tensors : std::vector<std::map<std::string, torch::Tensor>>{
           {},
           {{"tokens", tokens.view({2, 2})}},
           {{"tokens", tokens.to(torch::kLong)}},
           {{"weight", tokens}, {"tokens", tokens}},
           {{"tokenizer/tokenizer.json", tokens}, {"tokens", tokens}},
           {{"tokenizer/a", torch::zeros({3}, torch::kByte)}, {"tokens", tokens}}}) {
    save_safetensors(path_, {.tensors = tensors});  // the last one is not aligned
    EXPECT_THAT([&] { TokenFile file(path_); }, throws_naming<InputError>(path_, "tokens"));
  }
  EXPECT_THAT([&] { TokenFile(directory_ / "none"); },
              throws_naming<InputError>(directory_ / "none"));
}

TEST_F(TokenFiles, ThatAreDamagedAreReadOrRefused) {
  seed_afresh();
  write({0, 2, 1});
  const auto valid = read_bytes(path_);
  for (int i = 0; i < 200; ++i) {
    replace_file(path_, damaged(valid));
    try {
      const TokenFile file(path_);
      const auto size = static_cast<int64_t>(c10::elementSize(file.dtype()));
      EXPECT_EQ(std::ssize(file.bytes()), size * file.num_tokens());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % size, 0);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(path_.string()));
    }
  }
}

}  // namespace
}  // namespace attend::train
