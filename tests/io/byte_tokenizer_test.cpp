#include "attend/io/byte_tokenizer.h"

#include "support/random_text.h"
#include "support/seed.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

using testing::ElementsAre;

TEST(ByteTokenizer, EncodesEachByteAsItsValue) {
  EXPECT_EQ(ByteTokenizer().size(), 256);
  EXPECT_THAT(ByteTokenizer().encode("aé\xFF"), ElementsAre(97, 0xC3, 0xA9, 0xFF));
}

TEST(ByteTokenizer, DecodeInvertsEncode) {
  seed_afresh();
  for (int i = 0; i < 50; ++i) {
    const auto bytes = random_bytes(300);
    EXPECT_EQ(ByteTokenizer().decode(ByteTokenizer().encode(bytes)), bytes);
  }
}

TEST(ByteTokenizer, TokenEscapesUnprintableBytes) {
  EXPECT_EQ(ByteTokenizer().token('a'), "a");
  EXPECT_EQ(ByteTokenizer().token('\n'), "\\x0a");
  EXPECT_EQ(ByteTokenizer().token(0xC3), "\\xc3");
}

TEST(ByteTokenizer, IdsOutOfRangeThrow) {
  EXPECT_THROW(ByteTokenizer().decode({256}), std::out_of_range);
  EXPECT_THROW(ByteTokenizer().decode({-1}), std::out_of_range);
  EXPECT_THROW(ByteTokenizer().token(256), std::out_of_range);
}

}  // namespace
}  // namespace attend
