#include "tokenizers/python_text.h"

#include <gtest/gtest.h>

// The expected values are those of Python 3.11.
namespace attend::tokenizers {
namespace {

TEST(PythonText, StripsWhitespaceAtBothEnds) {
  EXPECT_EQ(stripped(" \t\n\u00A0\u3000\x1C\xC2\x85 b c \x1F\u2003"), "b c");
  EXPECT_EQ(stripped("a"), "a");
  EXPECT_EQ(stripped("\u200Ba\u200B"), "\u200Ba\u200B");
  EXPECT_EQ(stripped(" \u2028 "), "");
  EXPECT_EQ(stripped(""), "");
}

TEST(PythonText, Lowercases) {
  EXPECT_EQ(lowercased("The CAT, 1 ÄÉŒ ДОМ"), "the cat, 1 äéœ дом");
  EXPECT_EQ(lowercased("İI"), "i\u0307i");
}

TEST(PythonText, LowercasesASigmaAtTheEndOfAWord) {
  EXPECT_EQ(lowercased("ΟΔΟΣ ΣΟΦΟΣ."), "οδος σοφος.");
  EXPECT_EQ(lowercased("Σ ΑΣ' ΑΣ'Α ΑΣ\u0301 1Σ Α:Σ"), "σ ας' ασ'α ας\u0301 1σ α:ς");
}

}  // namespace
}  // namespace attend::tokenizers
