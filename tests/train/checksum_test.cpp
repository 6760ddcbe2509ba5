#include "attend/train/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace attend::train {
namespace {

TEST(Crc32c, EqualsTheValuesOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AA);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43);
  EXPECT_EQ(crc32c(""), 0);
}

TEST(Crc32c, GoesOnWhereAnotherEnded) {
  EXPECT_EQ(crc32c("6789", crc32c("12345")), crc32c("123456789"));
  EXPECT_EQ(crc32c("", crc32c("12345")), crc32c("12345"));
}

}  // namespace
}  // namespace attend::train
