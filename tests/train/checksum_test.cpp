#include "train/checksum.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Checksum, MatchesTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  // Test vectors of RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Checksum, OfPartsEqualsTheWhole) {
  seed_afresh();
  for (int i = 0; i < 50; ++i) {
    const auto first = random_bytes(200);
    const auto second = random_bytes(200);
    EXPECT_EQ(crc32c(second, crc32c(first)), crc32c(first + second));
  }
}

TEST(Checksum, OfAFileEqualsItsContent) {
  const TemporaryDirectory directory;
  std::string content;
  while (content.size() < 2'500'000) content += "larger than what is read at a time, ";
  replace_file(directory / "large", content);
  EXPECT_EQ(crc32c_of_file(directory / "large"), crc32c(content));
  replace_file(directory / "empty", "");
  EXPECT_EQ(crc32c_of_file(directory / "empty"), 0u);
  EXPECT_THAT([&] { crc32c_of_file(directory / "missing"); },
              ThrowsMessage<InputError>(HasSubstr("missing: no such file")));
}

}  // namespace
}  // namespace attend::train
