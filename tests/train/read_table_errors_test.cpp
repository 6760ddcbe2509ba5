#include "attend/input_error.h"
#include "attend/train/read_table.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class ReadTableErrors : public testing::Test {
 protected:
  void expect_error(const std::string& content, const std::string& message,
                    const std::string& name = "table.csv") {
    replace_file(directory_ / name, content);
    EXPECT_THAT([&] { read_table(directory_ / name, columns_); },
                ThrowsMessage<InputError>(HasSubstr(message)))
        << content;
  }

  TemporaryDirectory directory_;
  std::vector<TableColumn> columns_{{.name = "text"}, {.name = "label"}};
};

TEST_F(ReadTableErrors, NameTheLineOfAnInvalidRow) {
  expect_error("text,label\none,a\ntwo\n",
               "table.csv:3: expected 2 fields, as in the first line, "
               "found 1");
  expect_error("text,label\none,a\n\none, two,b\n", "table.csv:4: expected 2 fields");
  expect_error("text,label\none,\n", "table.csv:2: the column 'label' is empty");
  expect_error("text,label\none,a\n\"\",b\n", "table.csv:3: the column 'text' is empty");
  expect_error("text\tlabel\none\ta\ntwo\tb\t\n", "table.tsv:3: expected 2 fields", "table.tsv");
}

TEST_F(ReadTableErrors, NameTheFirstLineOfAMultilineRow) {
  expect_error("text,label\n\"one\n\ntwo\",a\nthree,b\n\"four\n\nfive\"\n", "table.csv:6: ");
  expect_error("text,label\n\"one\ntwo\",a\nthree,b,c\n", "table.csv:4: ");
}

TEST_F(ReadTableErrors, NameMisplacedQuotes) {
  expect_error("text,label\none,a\na 5\" disk,b\n", "table.csv:3: misplaced quote");
  expect_error("text,label\none,a\n\"two\" more,b\n", "table.csv:3: misplaced quote");
  expect_error("text,label\none,a\n\"two,b\nthree,a\n", "table.csv:3: unterminated quote");
}

TEST_F(ReadTableErrors, NameInvalidText) {
  expect_error("text,label\none,a\ntw\xE9,b\n",
               "table.csv:3: expected UTF-8 text, found byte 0xE9");
  expect_error(std::string("text,label\non\0e,a\n", 18),
               "table.csv:2: expected text, found a zero byte");
}

TEST_F(ReadTableErrors, FirstLineMustNameTheColumns) {
  expect_error(
      "one,a\ntwo,b\n",
      "table.csv:1: expected one column 'text' and one column 'label', found columns 'one', 'a'");
  expect_error("text,class\none,a\n", "table.csv:1: expected one column 'label'");
  expect_error("text,label,text\none,a,b\n", "table.csv:1: expected one column 'text'");
}

TEST_F(ReadTableErrors, NameTheLineOfInvalidJson) {
  const std::string first = R"({"text": "one", "label": "a"})";
  for (const auto& [second, message] :
       {std::pair("{\"text\": \"two\"", "table.jsonl:2: expected JSON"),
        std::pair("[\"two\", \"b\"]", "table.jsonl:2: expected a JSON object"),
        std::pair("{}", "table.jsonl:2: expected one column 'text' and one column 'label'"),
        std::pair("{\"text\": \"two\", \"class\": \"b\"}",
                  "table.jsonl:2: expected one column 'label', found columns 'text', 'class'"),
        std::pair("{\"text\": \"two\", \"label\": null}",
                  "table.jsonl:2: the column 'label' is empty"),
        std::pair("{\"text\": \"\", \"label\": \"b\"}",
                  "table.jsonl:2: the column 'text' is empty"),
        std::pair("{\"text\": \"two\", \"label\": [1]}", "table.jsonl:2: "),
        std::pair("{\"text\": \"t\\u0000o\", \"label\": \"b\"}",
                  "expected text, found a zero byte"),
        std::pair("{\"text\": \"tw\xE9\", \"label\": \"b\"}", "0xE9"),
        std::pair("{\"text\": \"two\", \"text\": \"x\", \"label\": \"b\"}", "'text'")}) {
    expect_error(first + "\n" + second + "\n", message, "table.jsonl");
  }
}

TEST_F(ReadTableErrors, NoRowsThrow) {
  expect_error("text,label\n", "expected rows, found none");
  expect_error("\n", "found none", "table.jsonl");
  expect_error("", "found none");
}

TEST_F(ReadTableErrors, UnknownOrMissingFilesThrow) {
  expect_error("text,label\none,a\n",
               "table.txt: unknown table format, expected a .csv, .tsv or .jsonl file",
               "table.txt");
  EXPECT_THAT([&] { read_table(directory_ / "missing.csv", columns_); },
              ThrowsMessage<InputError>(HasSubstr("missing.csv: no such file")));
}

TEST_F(ReadTableErrors, RandomFilesAreReadOrThrow) {
  seed_afresh();
  const std::string table = "text,label\none,a\n\"two\n\"\"x\"\" \",b\nthree,a\n";
  const std::string objects = R"({"text": "one", "label": "a"}
{"text": "two", "label": 2, "other": [1.5, null]}
)";
  for (int i = 0; i < 600; ++i) {
    const char* names[] = {"random.csv", "random.tsv", "random.jsonl"};
    const auto path = directory_ / names[i % 3];
    const auto& valid = i % 3 == 2 ? objects : table;
    replace_file(path, i % 4 == 0 ? "text,label\n" + random_bytes(80) : damaged(valid));
    try {
      const auto table = read_table(path, columns_);
      EXPECT_FALSE(table.line_numbers.empty());
      for (const auto& column : table.columns) EXPECT_EQ(column.size(), table.line_numbers.size());
    } catch (const InputError&) {
    }
  }
}

}  // namespace
}  // namespace attend::train
