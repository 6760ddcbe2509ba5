#include "io/zip_archive.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fmt/format.h>
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

TEST_F(ZipArchiveTest, ReadsPyTorchArchives) {
  write_archive(path, {{"some/text", "seven b"}, {"empty", ""}});
  const ZipArchive archive(path);
  EXPECT_EQ(archive.read("some/text"), "seven b");
  EXPECT_EQ(archive.read("empty"), "");
  EXPECT_EQ(archive.size("some/text"), 7U);
  EXPECT_FALSE(archive.has("a/some/text"));
  EXPECT_THAT([&] { archive.read("other"); }, throws<InputError>("entry 'other' not found"));
}

TEST_F(ZipArchiveTest, CompressedEntriesThrow) {
  write_plain({{"a/x", std::string(1000, 'x')}}, ZIP_CM_DEFLATE);
  EXPECT_THAT([&] { ZipArchive(path).read("x"); }, throws<InputError>("'x' is compressed"));
  EXPECT_EQ(ZipArchive(path).decompress("x", 1000), std::string(1000, 'x'));
  EXPECT_THAT([&] { ZipArchive(path).decompress("x", 999); },
              throws<InputError>("entry 'x' has 1000 bytes, expected at most 999"));
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

std::string little_endian(uint32_t number, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>((number >> (8 * i)) & 0xFF);
  return text;
}

/// In a malicious archive, the content of each entry contains all following entries, so that the
/// same bytes are read many times.
TEST_F(ZipArchiveTest, OverlappingEntriesThrow) {
  constexpr uint32_t kEntries = 20, kHeader = 30 + 4, kContent = 1000;
  const auto archive_of = [&](bool overlapping) {
    std::string entries;
    std::string directory_of_entries;
    for (uint32_t i = 0; i < kEntries; ++i) {
      const auto name = fmt::format("a/{:02}", i);
      const auto size =
          overlapping ? (kEntries - 1 - i) * (kHeader + kContent) + kContent : kContent;
      // These fields are the version, flags, method, time, date, checksum, compressed size,
      // uncompressed size, length of the name and length of the extra field.
      const auto fields = little_endian(20, 2) + std::string(8 + 4, '\0') + little_endian(size, 4) +
                          little_endian(size, 4) + little_endian(4, 2) + little_endian(0, 2);
      directory_of_entries += "PK\x01\x02" + little_endian(20, 2) + fields + std::string(10, '\0') +
                              little_endian(static_cast<uint32_t>(entries.size()), 4) + name;
      entries += "PK\x03\x04" + fields + name + std::string(kContent, 'x');
    }
    return entries + directory_of_entries + "PK\x05\x06" + std::string(4, '\0') +
           little_endian(kEntries, 2) + little_endian(kEntries, 2) +
           little_endian(static_cast<uint32_t>(directory_of_entries.size()), 4) +
           little_endian(static_cast<uint32_t>(entries.size()), 4) + std::string(2, '\0');
  };
  replace_file(path, archive_of(/*overlapping=*/false));
  EXPECT_EQ(ZipArchive(path).names().size(), kEntries);
  replace_file(path, archive_of(/*overlapping=*/true));
  EXPECT_THAT([&] { ZipArchive archive(path); }, throws<InputError>("its entries overlap"));
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
