#include "io/zip_archive.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <zip.h>

namespace attend {
namespace {

struct ZipArchiveTest : testing::Test {
  TemporaryDirectory directory;
  std::filesystem::path path = directory / "a.zip";

  /// Writes an archive with libzip, with the given compression method.
  void write_plain(const std::map<std::string, std::string>& entries, int method) {
    int code = 0;
    auto* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    for (const auto& [name, content] : entries) {
      auto* source = zip_source_buffer(archive, content.data(), content.size(), /*freep=*/0);
      const auto index = zip_file_add(archive, name.c_str(), source, 0);
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method, 0);
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
};

TEST_F(ZipArchiveTest, ReadsPyTorchArchivesFromFileAndMemory) {
  write_archive(path, {{"some/text", "seven b"}, {"empty", ""}});
  const auto bytes = read_bytes(path);
  const ZipArchive of_file(path);
  const ZipArchive of_memory{std::string_view(bytes)};
  for (const auto* archive : {&of_file, &of_memory}) {
    EXPECT_EQ(archive->read("some/text"), "seven b");
    EXPECT_EQ(archive->read("empty"), "");
    EXPECT_EQ(archive->size("some/text"), 7U);
    EXPECT_FALSE(archive->has("a/some/text"));
    EXPECT_THAT([&] { archive->read("other"); }, throws<InputError>("entry 'other' not found"));
  }
}

TEST_F(ZipArchiveTest, CompressedEntriesThrow) {
  write_plain({{"a/x", std::string(1000, 'x')}}, ZIP_CM_DEFLATE);
  EXPECT_THAT([&] { ZipArchive(path).read("x"); }, throws<InputError>("'x' is compressed"));
}

TEST_F(ZipArchiveTest, EntriesOutsideOfOneFolderThrow) {
  write_plain({{"x", "1"}}, ZIP_CM_STORE);
  EXPECT_THAT([&] { ZipArchive archive(path); },
              throws<InputError>("entry 'x' is not in a folder"));
  write_plain({{"a/x", "1"}, {"b/y", "2"}}, ZIP_CM_STORE);
  EXPECT_THAT(
      [&] { ZipArchive archive(path); },
      throws<InputError>("entry 'b/y' is outside folder 'a', expected all entries in one folder"));
}

TEST_F(ZipArchiveTest, WrongChecksumThrows) {
  write_archive(path, {{"text", "seven b"}});
  auto bytes = read_bytes(path);
  bytes[bytes.find("seven b")] = 'S';
  replace_file(path, bytes);
  const ZipArchive archive(path);
  EXPECT_THAT([&] { archive.read("text"); }, throws<InputError>("CRC"));
}

TEST_F(ZipArchiveTest, MissingFilesAndOtherFormatsThrow) {
  EXPECT_THAT([&] { ZipArchive archive(path); },
              testing::ThrowsMessage<InputError>("no such file"));
  EXPECT_THAT([&] { ZipArchive archive(directory.path()); },
              testing::ThrowsMessage<InputError>("not a regular file"));
  replace_file(path, "not an archive");
  EXPECT_THAT([&] { ZipArchive archive(path); },
              testing::ThrowsMessage<InputError>("not a zip archive, or a truncated one"));
  replace_file(path, "");
  EXPECT_THROW(ZipArchive archive(path), InputError);
}

}  // namespace
}  // namespace attend
