#include "io/mapped_file.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  for (const std::string& content :
       {std::string(), std::string("a\0b", 3), std::string(100'000, 'x')}) {
    replace_file(directory / "file", content);
    EXPECT_EQ(MappedFile(directory / "file").bytes(), content);
  }
}

TEST(MappedFile, DoesNotChangeIfTheFileIsReplacedOrRemoved) {
  const TemporaryDirectory directory;
  replace_file(directory / "file", "old");
  const MappedFile file(directory / "file");
  replace_file(directory / "file", "new and longer");
  EXPECT_EQ(file.bytes(), "old");
  std::filesystem::remove(directory / "file");
  EXPECT_EQ(file.bytes(), "old");
}

TEST(MappedFile, ThrowsForWhatIsNotARegularFile) {
  const TemporaryDirectory directory;
  EXPECT_THAT([&] { MappedFile(directory / "none"); },
              throws_naming<InputError>(directory / "none"));
  EXPECT_THAT([&] { MappedFile(directory.path()); }, throws_naming<InputError>(directory.path()));
  EXPECT_THAT([] { MappedFile("/dev/zero"); }, throws_naming<InputError>("/dev/zero"));
}

}  // namespace
}  // namespace attend
