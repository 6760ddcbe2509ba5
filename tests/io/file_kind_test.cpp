#include "attend/io/file_kind.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/archive.h"
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

TEST_F(FileKindTest, IsDetectedFromContentNotFromName) {
  EXPECT_EQ(file_kind(file_of("\x02\0\0\0\0\0\0\0{}"s)), FileKind::safetensors);
  write_archive(directory / "model.pt", {{"models/model.json", "{}"}});
  EXPECT_EQ(file_kind(directory / "model.pt"), FileKind::pt2);
  write_archive(directory / "model.pt2", {{"code/model.py", ""}, {"data.pkl", ""}});
  EXPECT_EQ(file_kind(directory / "model.pt2"), FileKind::torchscript);
}

TEST_F(FileKindTest, ErrorsNameTheFormatFound) {
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

TEST_F(FileKindTest, ErrorsNameOtherZipArchives) {
  const auto path = directory / "model.pt";
  write_archive(path, {{"data.pkl", "x"}});
  EXPECT_THAT(
      [&] { file_kind(path); },
      throws<InputError>("model.pt: expected a safetensors, TorchScript, .pt2 or ONNX file, found "
                         "a Python pickle, as written by torch.save"));
  write_archive(path, {{"word/document.xml", "x"}});
  EXPECT_THAT(
      [&] { file_kind(path); },
      throws<InputError>("found a zip archive without a TorchScript or torch.export model"));
  replace_file(path, read_bytes(path).substr(0, 40));
  EXPECT_THAT([&] { file_kind(path); }, throws<InputError>("model.pt: not a zip archive"));
}

TEST_F(FileKindTest, MissingFilesAndDirectoriesThrow) {
  EXPECT_THAT([&] { file_kind(directory / "none"); }, throws<InputError>("none: no such file"));
  EXPECT_THAT([&] { file_kind(directory.path()); }, throws<InputError>("found a directory"));
}

}  // namespace
}  // namespace attend
