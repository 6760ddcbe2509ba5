#include "io/parse_json.h"

#include "attend/input_error.h"
#include "support/throws.h"

#include <fmt/format.h>

namespace attend {
namespace {

TEST(ParseJson, ParsesValidJson) {
  EXPECT_EQ(parse_json(R"({"a": [1, 2.5, null, "x"]})").at("a").at(1), 2.5);
}

TEST(ParseJson, ErrorsNameThePositionOfInvalidJson) {
  EXPECT_THAT([] { parse_json("{\"a\": 1,}"); }, throws<InputError>("column 9"));
  EXPECT_THAT([] { parse_json("{\"a\":\n [1,, 2]}"); },
              throws_naming<InputError>("','", "offset 10", "line 2, column 5"));
  EXPECT_THAT([] { parse_json("{\"a\": "); }, throws_naming<InputError>("line 1, column 7"));
  EXPECT_THAT([] { parse_json("{\"\xFF\": 1}"); }, throws_naming<InputError>("0xFF", "offset 2"));
  EXPECT_THROW(parse_json(""), InputError);
  EXPECT_THROW(parse_json("1 2"), InputError);
}

TEST(ParseJson, MessagesAreNotThoseOfTheParser) {
  for (const char* invalid : {"{\"a\": }", "{\"a\"", "[1e999]", "tru"}) {
    try {
      parse_json(invalid);
      FAIL() << invalid;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::Not(testing::ContainsRegex("json.exception|parsing")));
    }
  }
}

// With quadratic time, 300,000 members would take minutes.
TEST(ParseJson, ObjectsMayHaveManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += fmt::format("\"{}\": {{\"a\": []}},", i);
  text.back() = '}';
  EXPECT_EQ(parse_json(text).size(), 300000U);
}

TEST(ParseJson, DuplicateKeysThrow) {
  EXPECT_THAT([] { parse_json(R"({"a": {"b": 1, "b": 2}})"); }, throws<InputError>("'b'"));
  parse_json(R"({"a": {"b": 1}, "b": {"b": 2}})");
}

TEST(ParseJson, DeepNestingThrows) {
  EXPECT_THAT([] { parse_json(std::string(1000000, '[')); },
              throws<InputError>("JSON is nested deeper than 100 levels"));
  parse_json(std::string(100, '[') + std::string(100, ']'));
}

}  // namespace
}  // namespace attend
