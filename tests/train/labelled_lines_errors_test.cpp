#include "attend/input_error.h"
#include "attend/train/read_labelled_lines.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LabelledLinesErrors : public testing::Test {
 protected:
  void expect_error(const std::string& content, const std::string& message,
                    const std::string& name = "table.csv") {
    replace_file(directory_ / name, content);
    EXPECT_THAT([&] { read_labelled_lines(directory_ / name); },
                ThrowsMessage<InputError>(HasSubstr(message)))
        << content;
  }

  TemporaryDirectory directory_;
};

TEST_F(LabelledLinesErrors, NameTheLineOfAnInvalidRow) {
  expect_error("text,label\none,a\ntwo\n",
               "table.csv:3: expected 2 fields, as in the first line, "
               "found 1");
  expect_error("text,label\none,a\n\none, two,b\n", "table.csv:4: expected 2 fields");
  expect_error("text,label\none,\n", "table.csv:2: the label is empty");
  expect_error("text,label\none,a\n\"\",b\n", "table.csv:3: the text is empty");
  expect_error("text\tlabel\none\ta\ntwo\tb\t\n", "table.tsv:3: expected 2 fields", "table.tsv");
}

TEST_F(LabelledLinesErrors, NameTheFirstLineOfAMultilineRow) {
  expect_error("text,label\n\"one\n\ntwo\",a\nthree,b\n\"four\n\nfive\"\n", "table.csv:6: ");
  expect_error("text,label\n\"one\ntwo\",a\nthree,b,c\n", "table.csv:4: ");
}

TEST_F(LabelledLinesErrors, NameMisplacedQuotes) {
  expect_error("text,label\none,a\na 5\" disk,b\n", "table.csv:3: misplaced quote");
  expect_error("text,label\none,a\n\"two\" more,b\n", "table.csv:3: misplaced quote");
  expect_error("text,label\none,a\n\"two,b\nthree,a\n", "table.csv:3: unterminated quote");
}

TEST_F(LabelledLinesErrors, NameInvalidText) {
  expect_error("text,label\none,a\ntw\xE9,b\n",
               "table.csv:3: expected UTF-8 text, found byte 0xE9");
  expect_error(std::string("text,label\non\0e,a\n", 18),
               "table.csv:2: expected text, found a zero byte");
}

TEST_F(LabelledLinesErrors, FirstLineMustNameTheColumns) {
  expect_error(
      "one,a\ntwo,b\n",
      "table.csv:1: expected one column 'text' and one column 'label', found columns 'one', 'a'");
  expect_error("text,class\none,a\n", "table.csv:1: expected one column 'label'");
  expect_error("text,label,text\none,a,b\n", "table.csv:1: expected one column 'text'");
}

TEST_F(LabelledLinesErrors, NameTheLineOfInvalidJson) {
  const std::string first = R"({"text": "one", "label": "a"})";
  for (const auto& [second, message] :
       {std::pair("{\"text\": \"two\"", "table.jsonl:2: expected JSON"),
        std::pair("[\"two\", \"b\"]", "table.jsonl:2: expected a JSON object"),
        std::pair("{}", "table.jsonl:2: expected one column 'text' and one column 'label'"),
        std::pair("{\"text\": \"two\", \"class\": \"b\"}",
                  "table.jsonl:2: expected one column 'label', found columns 'class', 'text'"),
        std::pair("{\"text\": \"two\", \"label\": null}", "table.jsonl:2: the label is empty"),
        std::pair("{\"text\": \"\", \"label\": \"b\"}", "table.jsonl:2: the text is empty"),
        std::pair("{\"text\": \"two\", \"label\": [1]}", "table.jsonl:2: "),
        std::pair("{\"text\": \"t\\u0000o\", \"label\": \"b\"}", "table.jsonl:2: expected text"),
        std::pair("{\"text\": \"tw\xE9\", \"label\": \"b\"}", "0xE9"),
        std::pair("{\"text\": \"two\", \"text\": \"x\", \"label\": \"b\"}", "'text'")}) {
    expect_error(first + "\n" + second + "\n", message, "table.jsonl");
  }
}

TEST_F(LabelledLinesErrors, OneClassThrows) {
  replace_file(directory_ / "table.csv", "text,label\none,a\ntwo,a\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  EXPECT_THAT([&] { make_task(recipe); },
              ThrowsMessage<InputError>(HasSubstr("at least two classes, found only 'a'")));
}

TEST_F(LabelledLinesErrors, TaskReportsClassesAndTruncatedTexts) {
  replace_file(directory_ / "table.csv", "text,label\nabcdef,x\nabc,y\nabcdefgh,x\nab,x\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.max_seq_len() = 4;
  recipe.data.truncate = TruncationSide::left;
  recipe.data.val_fraction = 0.7;  // 3 of 4 texts, so that a truncated text is a sample
  const auto task = make_task(recipe);
  const auto notes = task->data_notes();
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0].name, "classes");
  EXPECT_EQ(notes[0].text, "2: x (3), y (1)");
  EXPECT_EQ(notes[1].name, "truncated");
  for (const char* part : {"2 of 4", "last 4", "8", "--max-seq-len", "--truncate right"})
    EXPECT_THAT(notes[1].text, Names(std::string(part)));
  EXPECT_EQ(notes[2].name, "text");
  EXPECT_EQ(notes[2].text, "1 file, 42 bytes");
  int64_t shortened = 0;
  for (const auto& sample : task->samples()) {
    EXPECT_LE(sample.prompt.size(), 4U);
    shortened += sample.prompt == "cdef" || sample.prompt == "efgh";
  }
  EXPECT_GT(shortened, 0);
}

TEST_F(LabelledLinesErrors, TaskWarnsOfManyClassesWithFewTexts) {
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.label_column = "score";
  const auto warning = [&](int classes, int texts) {
    std::string table = "text,score\n";
    for (int i = 0; i < texts; ++i) table += fmt::format("text {},0.{}\n", i, i % classes);
    replace_file(directory_ / "table.csv", table);
    const auto notes = make_task(recipe)->data_notes();
    const auto found = std::ranges::find(notes, "warning", &DataNote::name);
    return found == notes.end() ? "" : found->text;
  };
  for (const char* part : {"500", "'score'", "--label-column"})
    EXPECT_THAT(warning(500, 500), Names(std::string(part)));
  EXPECT_NE(warning(11, 32), "");
  EXPECT_EQ(warning(11, 33), "");
  EXPECT_EQ(warning(10, 10), "");
}

TEST_F(LabelledLinesErrors, TaskCountsTextsWithoutAKnownWord) {
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.tokenizer = TokenizerKind::word;
  recipe.data.vocab_size = 3;  // <unk>, line break, the
  replace_file(directory_ / "table.csv", "text,label\nthe dog,x\nthe cat,y\na bird,x\nfish,y\n");
  const auto notes = make_task(recipe)->data_notes();
  const auto unknown = std::ranges::find(notes, "unknown", &DataNote::name);
  ASSERT_NE(unknown, notes.end());
  for (const char* part : {"2 of 4", "--vocab-size"})
    EXPECT_THAT(unknown->text, Names(std::string(part)));
}

TEST_F(LabelledLinesErrors, NameTheLineOfAnUnknownCharacterOrClassOfTheValidationTable) {
  replace_file(directory_ / "table.csv", "text,label\nabc,x\nbca,y\ncab,x\n");
  const auto validation = directory_ / "val.csv";
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.val_text = {validation.string()};
  replace_file(validation, "text,label\nabc,x\n\"a\nß\",y\nabc,z\n");
  const auto place = [&](const char* line) { return validation.string() + ":" + line; };
  EXPECT_THAT([&] { make_task(recipe); },
              ThrowsMessage<InputError>(testing::AllOf(Names(place("3")), Names("'ß'"),
                                                       Names("unknown = replace"),
                                                       testing::Not(HasSubstr("line 2")))));
  recipe.data.unknown = UnknownCharacters::replace;
  EXPECT_THAT([&] { make_task(recipe); }, throws_naming<InputError>(place("5"), "'z'", "x, y"));
  std::string many = "text,label\n";
  for (char name = 'A'; name <= 'X'; ++name) many += fmt::format("abc,{}\nbca,{}\n", name, name);
  replace_file(directory_ / "table.csv", many);
  replace_file(validation, "text,label\nabc,z\n");
  EXPECT_THAT([&] { make_task(recipe); },
              ThrowsMessage<InputError>(testing::AllOf(Names("'z'"), HasSubstr("I, J, 14 more"),
                                                       testing::Not(HasSubstr(", K")))));
  replace_file(directory_ / "table.csv", "text,label\nabc,x\nbca,y\ncab,x\n");
  recipe.data.max_text_bytes = 10;
  EXPECT_THAT([&] { make_task(recipe); },
              throws_naming<InputError>(recipe.text.front(), "10", "max_text_bytes"));
}

TEST_F(LabelledLinesErrors, BatchesSayWhichTextsAreTruncated) {
  replace_file(directory_ / "table.csv", "text,label\nabcdef,x\nabc,y\nab,x\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.max_seq_len() = 3;
  const auto& task = find_task("labelled-lines");
  const auto tokenizer = make_task(recipe);
  const auto batches =
      task.batches_of_file(recipe.text.front(), recipe, tokenizer->tokenizer(), {"x", "y"}, 2);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_TRUE(batches[0].is_truncated.equal(torch::tensor({true, false})));
  EXPECT_TRUE(batches[1].is_truncated.equal(torch::tensor({false})));
}

TEST_F(LabelledLinesErrors, ValidationTableIsTheValidationData) {
  replace_file(directory_ / "table.csv", "text,label\nabc,x\nbca,y\ncab,x\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.val_text = {(directory_ / "val.csv").string()};
  replace_file(recipe.data.val_text.front(), "text,label\ncc,y\nb,y\n");
  const auto task = make_task(recipe);
  const auto batch = task->validation_batches(100).at(0);
  EXPECT_TRUE(batch.targets.equal(torch::tensor({1, 1}, torch::kLong)));
  Sampler sampler(3);
  EXPECT_EQ(task->training_batch(100, sampler).key_mask.sum().item<int64_t>(), 300);
  const auto checksum = task->data_checksum();
  replace_file(recipe.data.val_text.front(), "text,label\ncc,y\nb,x\n");
  EXPECT_NE(make_task(recipe)->data_checksum(), checksum);
}

TEST_F(LabelledLinesErrors, SeveralTablesAreJoined) {
  auto recipe = find_task("labelled-lines").defaults;
  for (const auto& [name, table] : {std::pair("table.csv", "text,label\nabc,x\nbca,z\n"),
                                    std::pair("more.tsv", "label\ttext\ny\tcab\nx\tacb\n")}) {
    replace_file(directory_ / name, table);
    recipe.text.push_back((directory_ / name).string());
  }
  recipe.data.val_text = recipe.text;
  const auto task = make_task(recipe);
  EXPECT_EQ(task->classes(), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(task->data_notes().front().text, "3: x (2), y (1), z (1)");
  EXPECT_TRUE(task->validation_batches(100).at(0).targets.equal(torch::tensor({0, 2, 1, 0})));
  replace_file(recipe.text.back(), "label\ttext\ny\tcab\nx\tabd\n");
  recipe.text.pop_back();
  EXPECT_THAT([&] { make_task(recipe); },
              throws_naming<InputError>(recipe.data.val_text.back() + ":2", "'y'", "x, z"));
}

TEST_F(LabelledLinesErrors, NoRowsThrow) {
  expect_error("text,label\n", "expected rows, found none");
  expect_error("\n", "found none", "table.jsonl");
  expect_error("", "found none");
}

TEST_F(LabelledLinesErrors, UnknownOrMissingFilesThrow) {
  expect_error("text,label\none,a\n",
               "table.txt: unknown table format, expected a .csv, .tsv or .jsonl file",
               "table.txt");
  EXPECT_THAT([&] { read_labelled_lines(directory_ / "missing.csv"); },
              ThrowsMessage<InputError>(HasSubstr("missing.csv: no such file")));
}

TEST_F(LabelledLinesErrors, RandomFilesAreReadOrThrow) {
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
      const auto lines = read_labelled_lines(path);
      EXPECT_EQ(lines.texts.size(), lines.labels.size());
      EXPECT_EQ(lines.texts.size(), lines.line_numbers.size());
      EXPECT_FALSE(lines.texts.empty());
    } catch (const InputError&) {
    }
  }
}

}  // namespace
}  // namespace attend::train
