#include "attend/train/read_table.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::ElementsAre;

class ReadTable : public testing::Test {
 protected:
  /// Columns of texts and labels.
  struct Lines {
    std::vector<std::string> texts;
    std::vector<std::string> labels;
    std::vector<int64_t> line_numbers;
  };

  static std::vector<TableColumn> columns(const std::string& text = "text",
                                          const std::string& label = "label") {
    return {{.name = text, .option = "text_column"}, {.name = label, .option = "label_column"}};
  }
  Lines read(const std::string& name, const std::vector<TableColumn>& columns) {
    auto table = read_table(directory_ / name, columns, 1000);
    return {table.columns.at(0), table.columns.at(1), table.line_numbers};
  }
  Lines read(const std::string& name, const std::string& content) {
    replace_file(directory_ / name, content);
    return read(name, columns());
  }

  TemporaryDirectory directory_;
};

TEST_F(ReadTable, ReadsTextsAndLabels) {
  for (const char* name : {"table.csv", "table.tsv"}) {
    std::string content = "text,label\ngood one,pos\nso bad,neg\nfine,pos\n";
    if (name == std::string("table.tsv")) std::replace(content.begin(), content.end(), ',', '\t');
    const auto lines = read(name, content);
    EXPECT_THAT(lines.texts, ElementsAre("good one", "so bad", "fine"));
    EXPECT_THAT(lines.labels, ElementsAre("pos", "neg", "pos"));
  }
}

TEST_F(ReadTable, AcceptsColumnsInAnyOrder) {
  const auto lines = read("table.csv", "id,label,source,text\n1,b,x,one\n2,a,,two\n");
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("b", "a"));
}

TEST_F(ReadTable, ReadsTheNamedColumns) {
  replace_file(directory_ / "table.csv", "text,review,stars,label\na,one,5,b\nc,two,1,d\n");
  const auto lines = read("table.csv", columns("review", "stars"));
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("5", "1"));
}

TEST_F(ReadTable, CaseOfColumnNamesIsIgnoredUnlessOneMatchesExactly) {
  EXPECT_THAT(read("table.csv", "ID,Text,LABEL\n1,one,a\n").texts, ElementsAre("one"));
  EXPECT_THAT(read("table.csv", "Text,text,Label\none,two,a\n").texts, ElementsAre("two"));
  EXPECT_THAT([&] { read("table.csv", "Text,TEXT,label\none,two,a\n"); },
              throws_naming<InputError>("table.csv:1", "'text'", "'Text', 'TEXT', 'label'"));
}

TEST_F(ReadTable, MissingColumnsNameTheKeys) {
  EXPECT_THAT([&] { read("table.csv", "review,stars\none,5\n"); },
              throws_naming<InputError>("'text'", "'label'", "'review', 'stars'", "text_column",
                                        "label_column"));
  EXPECT_THAT([&] { read("table.csv", "text,stars\none,5\n"); },
              throws_naming<InputError>("'label'", "'text', 'stars'", "label_column"));
  EXPECT_THAT([&] { read("table.csv", "text, label\none,a\n"); },
              throws_naming<InputError>("'label'", "' label'", "label_column"));
  replace_file(directory_ / "table.csv", "text,label\none,a\n");
  EXPECT_THAT([&] { read("table.csv", columns("label", "label")); },
              throws_naming<InputError>("'label'", "text_column", "label_column"));
}

TEST_F(ReadTable, CsvMayBeSeparatedBySemicolonsOrTabs) {
  for (const char delimiter : {';', '\t'}) {
    std::string content = "id|label|\"text, quoted\"\n1|b|one, two\n2|a|\"x|y\"\n";
    std::replace(content.begin(), content.end(), '|', delimiter);
    replace_file(directory_ / "table.csv", content);
    const auto lines = read("table.csv", columns("text, quoted"));
    EXPECT_THAT(lines.texts, ElementsAre("one, two", std::string("x") + delimiter + "y"));
    EXPECT_THAT(lines.labels, ElementsAre("b", "a"));
  }
}

TEST_F(ReadTable, ReadsJsonLines) {
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
  const auto named = read("table.jsonl", columns("review", "stars"));
  EXPECT_THAT(named.labels, ElementsAre("4.5"));
}

TEST_F(ReadTable, ReturnsColumnsInTheOrderOfTheCall) {
  replace_file(directory_ / "table.csv", "a,b,c\n1,,3\n4,5,6\n");
  const auto table =
      read_table(directory_ / "table.csv",
                 {{.name = "c"}, {.name = "b", .may_be_empty = true}, {.name = "a"}});
  EXPECT_THAT(table.columns,
              ElementsAre(ElementsAre("3", "6"), ElementsAre("", "5"), ElementsAre("1", "4")));
  EXPECT_THAT(table.line_numbers, ElementsAre(2, 3));
  EXPECT_THROW(read_table(directory_ / "table.csv", {}), c10::ValueError);
}

TEST(TextsOfList, AreStringsNumbersAndBooleans) {
  EXPECT_THAT(texts_of_list(R"(["good", 1.5, true])", "tags"), ElementsAre("good", "1.5", "true"));
  for (const std::string other : {"null", "[2]", R"({"a":2})"}) {
    EXPECT_THAT([&] { texts_of_list("[1, " + other + "]", "tags"); },
                throws_naming<InputError>("'tags'", other));
  }
}

TEST_F(ReadTable, ListsAreReturnedAsJsonIfTheColumnMayContainThem) {
  replace_file(directory_ / "table.jsonl", R"({"tags": ["B-é", 1, {"a": "\u0000"}], "text": "x"})"
                                           "\n"
                                           R"({"tags": "[\"x\"]", "text": "y"})"
                                           "\n");
  const auto table =
      read_table(directory_ / "table.jsonl", {{.name = "tags", .may_be_list = true}});
  EXPECT_EQ(table.columns[0][0], R"(["B-é",1,{"a":"\u0000"}])");
  EXPECT_EQ(table.columns[0][1], R"(["x"])");
  EXPECT_THAT(table.lists, ElementsAre(std::pair(0U, 0U)));
  replace_file(directory_ / "object.jsonl", R"({"tags": {"a": 1}})"
                                            "\n");
  EXPECT_THAT(
      [&] { read_table(directory_ / "object.jsonl", {{.name = "tags", .may_be_list = true}}); },
      throws_naming<InputError>((directory_ / "object.jsonl").string() + ":1", "'tags'", "object"));
  EXPECT_THAT(
      [&] { read_table(directory_ / "table.jsonl", {{.name = "tags"}}); },
      throws_naming<InputError>((directory_ / "table.jsonl").string() + ":1", "'tags'", "array"));
}

TEST_F(ReadTable, Utf16IsRecognized) {
  EXPECT_THAT([&] { read("table.csv", std::string("\xFF\xFEt\0e\0", 6)); },
              throws_naming<InputError>("table.csv", "UTF-16", "iconv"));
}

TEST_F(ReadTable, TextsOfBytesNeedNotBeUtf8) {
  const auto read_bytes_of = [&](const char* name, const std::string& content) {
    replace_file(directory_ / name, content);
    auto bytes = columns();
    bytes[0].encoding = TextEncoding::bytes;
    return read(name, bytes);
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

TEST_F(ReadTable, QuotedCsvFieldsMayContainAnything) {
  const auto lines = read("table.csv",
                          "label,\"text\"\n"
                          "a,\"one, \"\"two\"\"\nand three\"\n"
                          "\"b\",\" spaces stay \"\n");
  EXPECT_THAT(lines.texts, ElementsAre("one, \"two\"\nand three", " spaces stay "));
}

TEST_F(ReadTable, TsvQuotesAreLiteral) {
  const auto lines = read("table.tsv", "text\tlabel\n\"Well, \"she\" said\ta\n5\" disk\t\"b\"\n");
  EXPECT_THAT(lines.texts, ElementsAre("\"Well, \"she\" said", "5\" disk"));
  EXPECT_THAT(lines.labels, ElementsAre("a", "\"b\""));
}

TEST_F(ReadTable, KeepsSpacesAroundFields) {
  EXPECT_THAT(read("table.csv", "text,label\n one ,a\ntwo, a\n").texts,
              ElementsAre(" one ", "two"));
  EXPECT_THAT(read("table.tsv", "text\tlabel\n one \ta\ntwo\t a\n").labels, ElementsAre("a", " a"));
}

TEST_F(ReadTable, AcceptsCrLfAndByteOrderMark) {
  const auto lines = read("table.csv",
                          "\xEF\xBB\xBF"
                          "text,label\r\none,a\r\n\r\n\"two\",b\r\n");
  EXPECT_THAT(lines.texts, ElementsAre("one", "two"));
  EXPECT_THAT(lines.labels, ElementsAre("a", "b"));
}

TEST_F(ReadTable, LastLineNeedsNoLineBreak) {
  EXPECT_THAT(read("table.csv", "text,label\n\none,a\n\n\ntwo,b").texts, ElementsAre("one", "two"));
  EXPECT_THAT(read("table.csv", "text,label\none,a\ntwo,\"b\"").labels, ElementsAre("a", "b"));
}

}  // namespace
}  // namespace attend::train
