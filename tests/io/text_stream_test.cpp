#include "attend/io/text_stream.h"

#include "attend/input_error.h"
#include "support/seed.h"
#include "support/throws.h"

#include <utf8.h>

namespace attend {
namespace {

using testing::ElementsAre;

/// What the stream gives for each of the pieces, and at the end.
std::vector<std::string> given(const std::vector<std::string>& pieces,
                               const std::vector<std::string>& stops = {}) {
  TextStream stream(stops);
  std::vector<std::string> texts;
  for (const auto& piece : pieces) texts.push_back(stream.add(piece));
  texts.push_back(stream.finish());
  return texts;
}

/// `text` up to the first stop text to be complete, found by looking at each beginning of it.
std::string cut_by_hand(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t length = 1; length <= text.size(); ++length) {
    const auto begun = text.substr(0, length);
    std::size_t longest = 0;
    for (const auto& stop : stops) {
      if (begun.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return begun.substr(0, length - longest);
  }
  return text;
}

TEST(TextStream, GivesOnAtOnceWhatIsCertain) {
  EXPECT_THAT(given({"one", " two", ""}), ElementsAre("one", " two", "", ""));
  EXPECT_THAT(given({"one\n", "two", "\n", "\n", "three"}, {"\n\n"}),
              ElementsAre("one", "\ntwo", "", "", "", ""));
  EXPECT_THAT(given({"aab", "aac"}, {"aac"}), ElementsAre("aab", "", ""));
  EXPECT_THAT(given({"aaa", "a"}, {"aac"}), ElementsAre("a", "a", "aa"));
}

TEST(TextStream, HoldsACharacterBackUntilItIsWhole) {
  EXPECT_THAT(given({"a\xE2", "\x82", "\xAC!"}), ElementsAre("a", "", "€!", ""));
  EXPECT_THAT(given({"\xF0\x9D", "\x84\x9E"}), ElementsAre("", "𝄞", ""));
  EXPECT_THAT(given({"\xC3", "\xBC"}), ElementsAre("", "ü", ""));
}

TEST(TextStream, GivesOnWhatIsNoUtf8AsItIs) {
  EXPECT_THAT(given({"\xE2", "a"}), ElementsAre("",
                                                "\xE2"
                                                "a",
                                                ""));
  EXPECT_THAT(given({"\x80\xFF", "\xC0"}), ElementsAre("\x80\xFF", "\xC0", ""));
  EXPECT_THAT(given({"\xE2\x82"}), ElementsAre("", "\xE2\x82"));
}

TEST(TextStream, TellsWhichTextStoppedIt) {
  TextStream stream({"bc", "abc", "d"});
  EXPECT_EQ(stream.stopped_by(), std::nullopt);
  EXPECT_EQ(stream.add("xab"), "x");
  EXPECT_EQ(stream.stopped_by(), std::nullopt);
  EXPECT_EQ(stream.add("cd"), "");
  EXPECT_EQ(stream.stopped_by(), "abc");
  EXPECT_EQ(stream.add("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, OfOverlappingStopTextsTheOneThatEndsFirstCounts) {
  EXPECT_THAT(given({"abcde"}, {"abcde", "bcd"}), ElementsAre("a", ""));
  EXPECT_THAT(given({"abcx"}, {"abcde", "bcd"}), ElementsAre("abcx", ""));
}

TEST(TextStream, HowATextIsCutIntoPiecesChangesNothing) {
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
    ASSERT_EQ(all, cut_by_hand(text, stops)) << text;
    ASSERT_EQ(stream.stopped_by().has_value(), all != text) << text;
  }
}

TEST(TextStream, AnEmptyStopTextIsRefused) {
  EXPECT_THAT([] { TextStream({"a", ""}); }, throws<InputError>("must not be empty"));
}

}  // namespace
}  // namespace attend
