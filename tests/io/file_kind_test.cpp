#include "attend/io/file_kind.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

namespace attend {
namespace {

using std::literals::operator""s;

struct FileKindTest : testing::Test {
  std::filesystem::path file_of(const std::string& content) const {
    auto path = directory / "model.bin";
    replace_file(path, content);
    return path;
  }

  TemporaryDirectory directory;
};

TEST_F(FileKindTest, IsToldByTheContentNotByTheName) {
  EXPECT_EQ(file_kind(file_of("\x02\0\0\0\0\0\0\0{}"s)), FileKind::safetensors);
  EXPECT_EQ(file_kind(file_of("PK\x03\x04 and so on")), FileKind::zip);
}

TEST_F(FileKindTest, NamesWhatWasFoundInstead) {
  const std::vector<std::pair<std::string, const char*>> cases{
      {"", "found an empty file"},
      {"\x80\x02}q", "found a Python pickle"},
      {"\x1f\x8b\x08", "found a gzip archive"},
      {"GGUF\x03", "found a GGUF file"},
      {"version https://git-lfs.github.com/spec/v1", "found a Git LFS pointer"},
      {"Once upon a time", "found a text file"},
      {"Once upo{ a time", "found a text file"},
      {"\x01\x02\xff\xfe"s, "begins with the bytes 01 02 ff fe"},
      {"\x02\0\0"s, "begins with the bytes 02 00 00"},
  };
  for (const auto& [content, expected] : cases) {
    const auto path = file_of(content);
    EXPECT_THAT([&] { file_kind(path); }, throws<InputError>(expected));
    EXPECT_THAT([&] { file_kind(path); }, throws<InputError>("model.bin: expected"));
  }
}

TEST_F(FileKindTest, OfWhatIsNotThereIsAnError) {
  EXPECT_THAT([&] { file_kind(directory / "none"); }, throws<InputError>("none: no such file"));
  EXPECT_THAT([&] { file_kind(directory.path()); }, throws<InputError>("found a directory"));
}

}  // namespace
}  // namespace attend
