#include "attend/io/text_stream.h"

#include "attend/input_error.h"
#include "support/seed.h"
#include "support/throws.h"

#include <utf8.h>

namespace attend {
namespace {

using testing::ElementsAre;

/// Adds the pieces to a TextStream. Returns the output of each add(), followed by the output of
/// finish().
std::vector<std::string> stream_pieces(const std::vector<std::string>& pieces,
                                       const std::vector<std::string>& stops = {}) {
  TextStream stream(stops);
  std::vector<std::string> texts;
  for (const auto& piece : pieces) texts.push_back(stream.add(piece));
  texts.push_back(stream.finish());
  return texts;
}

/// Reference implementation: finds the shortest prefix of `text` that ends with a stop sequence.
/// Returns this prefix without the longest stop sequence at its end. Returns `text` if it contains
/// no stop sequence.
std::string reference_output(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const auto prefix = text.substr(0, length);
    std::size_t longest = 0;
    for (const auto& stop : stops) {
      if (prefix.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return prefix.substr(0, length - longest);
  }
  return text;
}

TEST(TextStream, ReturnsTextThatCannotBePartOfAStopSequence) {
  EXPECT_THAT(stream_pieces({"one", " two", ""}), ElementsAre("one", " two", "", ""));
  EXPECT_THAT(stream_pieces({"one\n", "two", "\n", "\n", "three"}, {"\n\n"}),
              ElementsAre("one", "\ntwo", "", "", "", ""));
  EXPECT_THAT(stream_pieces({"aab", "aac"}, {"aac"}), ElementsAre("aab", "", ""));
  EXPECT_THAT(stream_pieces({"aaa", "a"}, {"aac"}), ElementsAre("a", "a", "aa"));
}

TEST(TextStream, IncompleteCharactersWaitForTheirRemainingBytes) {
  EXPECT_THAT(stream_pieces({"a\xE2", "\x82", "\xAC!"}), ElementsAre("a", "", "€!", ""));
  EXPECT_THAT(stream_pieces({"\xF0\x9D", "\x84\x9E"}), ElementsAre("", "𝄞", ""));
  EXPECT_THAT(stream_pieces({"\xC3", "\xBC"}), ElementsAre("", "ü", ""));
}

TEST(TextStream, InvalidUtf8IsPassedThrough) {
  EXPECT_THAT(stream_pieces({"\xE2", "a"}), ElementsAre("",
                                                        "\xE2"
                                                        "a",
                                                        ""));
  EXPECT_THAT(stream_pieces({"\x80\xFF", "\xC0"}), ElementsAre("\x80\xFF", "\xC0", ""));
  EXPECT_THAT(stream_pieces({"\xE2\x82"}), ElementsAre("", "\xE2\x82"));
}

TEST(TextStream, StoppedByReturnsTheStopSequenceFound) {
  TextStream stream({"bc", "abc", "d"});
  EXPECT_EQ(stream.stopped_by(), std::nullopt);
  EXPECT_EQ(stream.add("xab"), "x");
  EXPECT_EQ(stream.stopped_by(), std::nullopt);
  EXPECT_EQ(stream.add("cd"), "");
  EXPECT_EQ(stream.stopped_by(), "abc");
  EXPECT_EQ(stream.add("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, TheStopSequenceThatEndsFirstApplies) {
  EXPECT_THAT(stream_pieces({"abcde"}, {"abcde", "bcd"}), ElementsAre("a", ""));
  EXPECT_THAT(stream_pieces({"abcx"}, {"abcde", "bcd"}), ElementsAre("abcx", ""));
}

TEST(TextStream, OutputDoesNotDependOnThePieces) {
  seed_afresh();
  const std::vector<std::string> alphabet{"a", "b", "ü", "€", "𝄞"};
  const auto draw_text = [&](int64_t longest) {
    std::string text;
    for (auto n = draw(1, longest); n > 0; --n)
      text += alphabet[static_cast<std::size_t>(draw(0, 4))];
    return text;
  };
  for (int i = 0; i < 3000; ++i) {
    const auto text = draw_text(30);
    std::vector<std::string> stops;
    for (auto n = draw(0, 3); n > 0; --n) stops.push_back(draw_text(4));
    TextStream stream(stops);
    std::string all;
    for (std::size_t from = 0; from < text.size();) {
      const auto piece = text.substr(from, static_cast<std::size_t>(draw(0, 5)));
      from += piece.size();
      const auto out = stream.add(piece);
      ASSERT_TRUE(utf8::is_valid(out)) << text;
      all += out;
    }
    all += stream.finish();
    ASSERT_EQ(all, reference_output(text, stops)) << text;
    ASSERT_EQ(stream.stopped_by().has_value(), all != text) << text;
  }
}

TEST(TextStream, EmptyStopSequenceThrows) {
  EXPECT_THAT([] { TextStream({"a", ""}); }, throws<InputError>("must not be empty"));
}

}  // namespace
}  // namespace attend
