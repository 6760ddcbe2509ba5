#include "attend/input_error.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LabelledLines : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

TEST_F(LabelledLines, OneClassThrows) {
  replace_file(directory_ / "table.csv", "text,label\none,a\ntwo,a\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  EXPECT_THAT([&] { make_task(recipe); },
              ThrowsMessage<InputError>(HasSubstr("at least two classes, found only 'a'")));
}

TEST_F(LabelledLines, TaskReportsClassesAndTruncatedTexts) {
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

TEST_F(LabelledLines, CarriageReturnsOfTextsAreKeptOnlyOnRequest) {
  replace_file(directory_ / "table.csv", "text,label\n\"a\r\nb\",x\n\"b\ra\",y\n");
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.tokenizer = TokenizerKind::byte;
  for (const bool keep : {false, true}) {
    recipe.data.keep_carriage_returns = keep;
    const auto task = make_task(recipe);
    const auto batch =
        find_task("labelled-lines")
            .batches_of_file(recipe.text.front(), recipe, task->tokenizer(), task->classes(), 2)
            .at(0);
    EXPECT_EQ(batch.key_mask.sum(1)[0].item<int64_t>(), keep ? 4 : 3);
    EXPECT_EQ(batch.key_mask.sum(1)[1].item<int64_t>(), 3);  // a single CR stays
  }
}

TEST_F(LabelledLines, StratifiedSplitsHaveTheRatioOfEachClass) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    std::string table = "text,label\n";
    std::vector<int64_t> counts(static_cast<std::size_t>(draw(2, 5)));
    int64_t total = 0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      counts[c] = draw(1, 40);
      for (int64_t k = 0; k < counts[c]; ++k) table += fmt::format("{} {},c{}\n", c, k, c);
      total += counts[c];
    }
    replace_file(directory_ / "table.csv", table);
    auto recipe = find_task("labelled-lines").defaults;
    recipe.text = {(directory_ / "table.csv").string()};
    recipe.data.val_fraction = static_cast<double>(draw(1, 60)) / 100;
    const auto targets = make_task(recipe)->validation_batches(1000).at(0).targets;
    const auto part = targets.bincount({}, std::ssize(counts));
    int64_t possible = 0;
    for (const auto count : counts) possible += count - 1;
    const auto wanted = std::clamp<int64_t>(
        std::llround(static_cast<double>(total) * recipe.data.val_fraction), 1, total - 1);
    EXPECT_EQ(targets.size(0), wanted);
    for (std::size_t c = 0; c < counts.size() && wanted <= possible; ++c) {
      const auto in_class = part[static_cast<int64_t>(c)].item<int64_t>();
      EXPECT_LT(in_class, counts[c]) << "class " << c << " has no training text";
      // A class of a single text leaves its part to the others.
      const auto singles = std::ranges::count(counts, 1);
      EXPECT_NEAR(static_cast<double>(in_class),
                  static_cast<double>(counts[c] * wanted) / static_cast<double>(total),
                  1.0 + static_cast<double>(singles))
          << "class " << c;
    }
    recipe.data.stratify = false;
    EXPECT_EQ(make_task(recipe)->validation_batches(1000).at(0).targets.size(0), wanted);
  }
}

TEST_F(LabelledLines, ClassWeightsAreThoseOfTheTrainingTexts) {
  std::string table = "text,label\n";
  for (int i = 0; i < 20; ++i) table += fmt::format("{},{}\n", i, i < 5 ? "rare" : "usual");
  replace_file(directory_ / "table.csv", table);
  auto recipe = find_task("labelled-lines").defaults;
  recipe.text = {(directory_ / "table.csv").string()};
  recipe.data.val_fraction = 0.2;  // 1 of 5 and 3 of 15
  EXPECT_FALSE(make_task(recipe)->class_weights().defined());
  recipe.data.class_weights = "balanced";
  const auto task = make_task(recipe);
  EXPECT_TRUE(torch::allclose(task->class_weights(), torch::tensor({16.0f / 8, 16.0f / 24})));
  const auto notes = task->data_notes();
  const auto note = std::ranges::find(notes, "class weights", &DataNote::name);
  ASSERT_NE(note, notes.end());
  EXPECT_EQ(note->text, "rare 2.0000, usual 0.6667");
  recipe.data.class_weights = "1,2,3";
  EXPECT_THAT([&] { make_task(recipe); }, throws_naming<InputError>("class_weights", "3", "2"));
}

TEST_F(LabelledLines, TaskWarnsOfManyClassesWithFewTexts) {
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

TEST_F(LabelledLines, TaskCountsTextsWithoutAKnownWord) {
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

TEST_F(LabelledLines, NameTheLineOfAnUnknownCharacterOrClassOfTheValidationTable) {
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

TEST_F(LabelledLines, BatchesSayWhichTextsAreTruncated) {
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

TEST_F(LabelledLines, ValidationTableIsTheValidationData) {
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

TEST_F(LabelledLines, SeveralTablesAreJoined) {
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

}  // namespace
}  // namespace attend::train
