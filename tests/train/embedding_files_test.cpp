#include "attend/train/embedding_files.h"

#include "io/files.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <sstream>

namespace attend::train {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

class EmbeddingFilesTest : public testing::Test {
 protected:
  std::vector<std::string> lines(const std::string& name) const {
    return split(read_bytes(directory_ / name), '\n');
  }
  std::string label_of(const std::string& token) const {
    write_embeddings(directory_.path(), torch::zeros({1, 2}), {token});
    return read_bytes(directory_ / "metadata.tsv");
  }

  TemporaryDirectory directory_;
};

TEST_F(EmbeddingFilesTest, RoundTripEveryVector) {
  seed_afresh();
  const auto rows = draw(1, 20);
  const auto width = draw(1, 9);
  const auto table = torch::randn({rows, width}).exp().requires_grad_();
  write_embeddings(directory_.path(), table,
                   std::vector<std::string>(static_cast<std::size_t>(rows), "a"));
  std::vector<float> values;
  for (const auto& line : lines("embeddings.tsv")) {
    const auto parts = split(line, '\t');
    ASSERT_EQ(static_cast<int64_t>(parts.size()), width);
    for (const auto& part : parts) values.push_back(std::stof(part));
  }
  EXPECT_TRUE(torch::tensor(values).view({rows, width}).equal(table));
}

TEST_F(EmbeddingFilesTest, AcceptOtherDtypesAndStrides) {
  const auto table = torch::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, torch::kBFloat16).t();
  write_embeddings(directory_.path(), table, {"a", "b", "c"});
  EXPECT_THAT(lines("embeddings.tsv"), testing::ElementsAre("1\t4", "2\t5", "3\t6"));
}

TEST_F(EmbeddingFilesTest, HaveOneLinePerToken) {
  write_embeddings(directory_.path(), torch::zeros({3, 2}), {"the", "Füchse", "a b"});
  EXPECT_THAT(lines("metadata.tsv"), testing::ElementsAre("the", "Füchse", "a b"));
}

TEST_F(EmbeddingFilesTest, EscapeControlCharacters) {
  EXPECT_EQ(label_of("a\tb\nc\rd"), "a\\tb\\nc\\rd\n");
  EXPECT_EQ(label_of("\x07"
                     "\x1b"
                     "\x7f"),
            "\\x07\\x1B\\x7F\n");
  EXPECT_EQ(label_of(std::string("a\0b", 3)), "a\\x00b\n");
  EXPECT_EQ(label_of("\\n"), "\\\\n\n");  // differs from the label of a line break
  EXPECT_EQ(label_of("\u0085\u00a0\u2028\u3000\ufeff"), "\\u0085\\u00A0\\u2028\\u3000\\uFEFF\n");
}

TEST_F(EmbeddingFilesTest, EscapeInvalidUtf8) {
  EXPECT_EQ(label_of("\xff"), "\\xFF\n");
  EXPECT_EQ(label_of("ü\xc3"), "ü\\xC3\n");
  EXPECT_EQ(label_of("\xbc\xc3\xbc!"), "\\xBCü!\n");
}

TEST_F(EmbeddingFilesTest, QuoteBlankTokens) {
  EXPECT_EQ(label_of(""), "\"\"\n");
  EXPECT_EQ(label_of(" "), "\" \"\n");
  EXPECT_EQ(label_of("   "), "\"   \"\n");
}

TEST_F(EmbeddingFilesTest, ConfigNamesTheOtherFiles) {
  write_embeddings(directory_.path(), torch::zeros({1, 2}), {"a"});
  const auto config = read_bytes(directory_ / "projector_config.pbtxt");
  EXPECT_THAT(config, testing::HasSubstr("tensor_path: \"embeddings.tsv\""));
  EXPECT_THAT(config, testing::HasSubstr("metadata_path: \"metadata.tsv\""));
}

TEST_F(EmbeddingFilesTest, ThrowIfSizesDiffer) {
  const auto write = [&](const torch::Tensor& table) {
    write_embeddings(directory_.path(), table, {"a", "b"});
  };
  EXPECT_THAT(
      [&] {
        write(torch::zeros({3, 4}));
      },
      throws<c10::ValueError>("table [3, 4] must have a row for each of the 2 tokens"));
  EXPECT_THAT([&] { write(torch::zeros({2})); }, throws<c10::ValueError>("(V, E), found [2]"));
  EXPECT_THAT(
      [] {
        write_embeddings("/proc/none", torch::zeros({1, 2}), {"a"});
      },
      throws<std::runtime_error>("/proc/none/embeddings.tsv"));
}

}  // namespace
}  // namespace attend::train
