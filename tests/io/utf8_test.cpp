#include "attend/io/utf8.h"

#include "attend/input_error.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(Utf8, SplitCharactersReturnsCodePoints) {
  EXPECT_THAT(split_characters("né\n𝄞"), ElementsAre("n", "é", "\n", "𝄞"));
  EXPECT_THAT(split_characters(""), ElementsAre());
  EXPECT_THROW(split_characters("\xC3"), InputError);
}

TEST(Utf8, ErrorsNameTheFirstInvalidByteAndTheSource) {
  EXPECT_NO_THROW(check_utf8("grün 世"));
  EXPECT_THAT([] { check_utf8("gr\xFCn"); },
              ThrowsMessage<InputError>("expected UTF-8 text, found byte 0xFC at offset 2"));
  EXPECT_THAT(
      [] { check_utf8("\xED\xA0\x80", "notes.txt"); },  // a surrogate
      ThrowsMessage<InputError>("notes.txt: expected UTF-8 text, found byte 0xED at offset 0"));
}

TEST(Utf8, RemovesOnlyAByteOrderMarkAtTheStart) {
  EXPECT_EQ(without_byte_order_mark("\uFEFFgrün\uFEFF"), "grün\uFEFF");
  EXPECT_EQ(without_byte_order_mark("grün"), "grün");
  EXPECT_EQ(without_byte_order_mark(""), "");
}

TEST(Utf8, RecognizesUtf16WithAndWithoutAByteOrderMark) {
  using namespace std::string_view_literals;
  for (const auto text :
       {"\xFF\xFEh\0i\0"sv, "\xFE\xFF\0h\0i"sv, "h\0i\0"sv, "\0h\0i"sv, "\xFF\xFE"sv}) {
    EXPECT_THAT([&] { without_byte_order_mark(text, "notes.txt"); },
                throws_naming<InputError>("notes.txt", "UTF-8", "UTF-16", "iconv"))
        << printable(text);
  }
  EXPECT_EQ(without_byte_order_mark("hi\0there"sv), "hi\0there"sv);
}

TEST(Utf8, LineAndColumnCountCodePointsFromOne) {
  EXPECT_EQ(line_and_column("é\nüx", 0), "line 1, column 1");
  EXPECT_EQ(line_and_column("é\nüx", 2), "line 1, column 2");
  EXPECT_EQ(line_and_column("é\nüx", 3), "line 2, column 1");
  EXPECT_EQ(line_and_column("é\nüx", 5), "line 2, column 2");
}

TEST(Utf8, PrintableEscapesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(printable("a b\n\t\x1B[31mé"), "a b\\x0a\\x09\\x1b[31mé");
  EXPECT_EQ(printable(std::string_view("\0\x7F", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m\xC2\xA0"),
            "\\xc2\\x9b31m\xC2\xA0");
  EXPECT_EQ(printable("x\xE4\xB8y\xFF"), "x\\xe4\\xb8y\\xff");
}

TEST(Utf8, PrintableEscapesInvisibleCharactersThatChangeATerminal) {
  EXPECT_EQ(printable("\u202Eevil\u2066"), "\\xe2\\x80\\xaeevil\\xe2\\x81\\xa6");
  EXPECT_EQ(printable("a\u200Bb\u200F\u2028\uFEFF"),
            "a\\xe2\\x80\\x8bb\\xe2\\x80\\x8f\\xe2\\x80\\xa8\\xef\\xbb\\xbf");
  EXPECT_EQ(printable("می\u200Cخواهم €"), "می\u200Cخواهم €");
}

TEST(Utf8, ReplaceInvalidUtf8InsertsReplacementCharacters) {
  EXPECT_EQ(replace_invalid_utf8("né\n\x1B"), "né\n\x1B");
  EXPECT_EQ(replace_invalid_utf8("a\xBDz\xFF"), "a\uFFFDz\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("cut \xE4\xB8"), "cut \uFFFD");
}

}  // namespace
}  // namespace attend
