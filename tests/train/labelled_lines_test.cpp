#include "attend/input_error.h"
#include "attend/train/read_labelled_lines.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::ElementsAre;

class LabelledLinesTest : public testing::Test {
 protected:
  LabelledLines read(const std::string& name, const std::string& content) {
    replace_file(directory_ / name, content);
    return read_labelled_lines(directory_ / name);
  }

  TemporaryDirectory directory_;
};

TEST_F(LabelledLinesTest, ReadsTextsAndLabels) {
  for (const char* name : {"table.csv", "table.tsv"}) {
    std::string content = "text,label\ngood one,pos\nso bad,neg\nfine,pos\n";
    if (name == std::string("table.tsv")) std::replace(content.begin(), content.end(), ',', '\t');
    const auto lines = read(name, content);
    EXPECT_THAT(lines.texts, ElementsAre("good one", "so bad", "fine"));
    EXPECT_THAT(lines.labels, ElementsAre("pos", "neg", "pos"));
  }
}

TEST_F(LabelledLinesTest, AcceptsColumnsInAnyOrder) {
  const auto lines = read("table.csv", "id,label,source,text\n1,b,x,one\n2,a,,two\n");
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("b", "a"));
}

TEST_F(LabelledLinesTest, ReadsTheNamedColumns) {
  replace_file(directory_ / "table.csv", "text,review,stars,label\na,one,5,b\nc,two,1,d\n");
  const auto lines =
      read_labelled_lines(directory_ / "table.csv", {.text = "review", .label = "stars"});
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("5", "1"));
}

TEST_F(LabelledLinesTest, CaseOfColumnNamesIsIgnoredUnlessOneMatchesExactly) {
  EXPECT_THAT(read("table.csv", "ID,Text,LABEL\n1,one,a\n").texts, ElementsAre("one"));
  EXPECT_THAT(read("table.csv", "Text,text,Label\none,two,a\n").texts, ElementsAre("two"));
  EXPECT_THAT([&] { read("table.csv", "Text,TEXT,label\none,two,a\n"); },
              throws_naming<InputError>("table.csv:1", "'text'", "'Text', 'TEXT', 'label'"));
}

TEST_F(LabelledLinesTest, MissingColumnsNameTheKeys) {
  EXPECT_THAT([&] { read("table.csv", "review,stars\none,5\n"); },
              throws_naming<InputError>("'text'", "'label'", "'review', 'stars'", "text_column",
                                        "label_column"));
  EXPECT_THAT([&] { read("table.csv", "text,stars\none,5\n"); },
              throws_naming<InputError>("'label'", "'text', 'stars'", "label_column"));
  EXPECT_THAT([&] { read("table.csv", "text, label\none,a\n"); },
              throws_naming<InputError>("'label'", "' label'", "label_column"));
  replace_file(directory_ / "table.csv", "text,label\none,a\n");
  EXPECT_THAT(
      [&] { read_labelled_lines(directory_ / "table.csv", {.text = "label", .label = "label"}); },
      throws_naming<InputError>("'label'", "text_column", "label_column"));
}

TEST_F(LabelledLinesTest, CsvMayBeSeparatedBySemicolonsOrTabs) {
  for (const char delimiter : {';', '\t'}) {
    std::string content = "id|label|\"text, quoted\"\n1|b|one, two\n2|a|\"x|y\"\n";
    std::replace(content.begin(), content.end(), '|', delimiter);
    replace_file(directory_ / "table.csv", content);
    const auto lines = read_labelled_lines(directory_ / "table.csv", {.text = "text, quoted"});
    EXPECT_THAT(lines.texts, ElementsAre("one, two", std::string("x") + delimiter + "y"));
    EXPECT_THAT(lines.labels, ElementsAre("b", "a"));
  }
}

TEST_F(LabelledLinesTest, ReadsJsonLines) {
  const auto lines =
      read("table.JSONL",
           "\xEF\xBB\xBF{\"text\": \"one,\\n\\\"two\\\"\", \"label\": \"a\", \"id\": [1]}\r\n"
           "\n"
           "{\"Label\": 1, \"text\": \" caf\\u00e9 \"}\n"
           "{\"label\": true, \"text\": \"x\", \"TEXT\": \"y\"}");
  EXPECT_THAT(lines.texts, ElementsAre("one,\n\"two\"", " café ", "x"));
  EXPECT_THAT(lines.labels, ElementsAre("a", "1", "true"));
  EXPECT_THAT(lines.line_numbers, ElementsAre(1, 3, 4));
  replace_file(directory_ / "table.jsonl", "{\"review\": \"one\", \"stars\": 4.5}\n");
  const auto named =
      read_labelled_lines(directory_ / "table.jsonl", {.text = "review", .label = "stars"});
  EXPECT_THAT(named.labels, ElementsAre("4.5"));
}

TEST_F(LabelledLinesTest, Utf16IsRecognized) {
  EXPECT_THAT([&] { read("table.csv", std::string("\xFF\xFEt\0e\0", 6)); },
              throws_naming<InputError>("table.csv", "UTF-16", "iconv"));
}

TEST_F(LabelledLinesTest, TextsOfBytesNeedNotBeUtf8) {
  const auto read_bytes_of = [&](const char* name, const std::string& content) {
    replace_file(directory_ / name, content);
    return read_labelled_lines(directory_ / name, {}, 1000, TextEncoding::bytes);
  };
  for (const char* name : {"table.csv", "table.tsv"}) {
    const char separator = std::string_view(name) == "table.csv" ? ',' : '\t';
    const auto row = [&](const std::string& text, const std::string& label) {
      return text + separator + label + "\n";
    };
    const auto header = row("text", "label");
    EXPECT_THAT(read_bytes_of(name, header + row("caf\xE9 \xFF", "a") + row("x", "b")).texts,
                ElementsAre("caf\xE9 \xFF", "x"));
    EXPECT_THAT([&] { read_bytes_of(name, header + row("x", "a") + row("x", "\xE9")); },
                throws_naming<InputError>((directory_ / name).string() + ":3", "0xE9"));
    EXPECT_THAT([&] { read_bytes_of(name, header + row(std::string("x\0", 2), "a")); },
                throws_naming<InputError>((directory_ / name).string() + ":2"));
  }
}

TEST_F(LabelledLinesTest, QuotedCsvFieldsMayContainAnything) {
  const auto lines = read("table.csv",
                          "label,\"text\"\n"
                          "a,\"one, \"\"two\"\"\nand three\"\n"
                          "\"b\",\" spaces stay \"\n");
  EXPECT_THAT(lines.texts, ElementsAre("one, \"two\"\nand three", " spaces stay "));
}

TEST_F(LabelledLinesTest, TsvQuotesAreLiteral) {
  const auto lines = read("table.tsv", "text\tlabel\n\"Well, \"she\" said\ta\n5\" disk\t\"b\"\n");
  EXPECT_THAT(lines.texts, ElementsAre("\"Well, \"she\" said", "5\" disk"));
  EXPECT_THAT(lines.labels, ElementsAre("a", "\"b\""));
}

TEST_F(LabelledLinesTest, KeepsSpacesAroundFields) {
  EXPECT_THAT(read("table.csv", "text,label\n one ,a\ntwo, a\n").texts,
              ElementsAre(" one ", "two"));
  EXPECT_THAT(read("table.tsv", "text\tlabel\n one \ta\ntwo\t a\n").labels, ElementsAre("a", " a"));
}

TEST_F(LabelledLinesTest, AcceptsCrLfAndByteOrderMark) {
  const auto lines = read("table.csv",
                          "\xEF\xBB\xBF"
                          "text,label\r\none,a\r\n\r\n\"two\",b\r\n");
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("a", "b"));
}

TEST_F(LabelledLinesTest, LastLineNeedsNoLineBreak) {
  EXPECT_THAT(read("table.csv", "text,label\n\none,a\n\n\ntwo,b").texts, ElementsAre("one", "two"));
  EXPECT_THAT(read("table.csv", "text,label\none,a\ntwo,\"b\"").labels, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace attend::train
