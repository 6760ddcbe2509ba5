// Texts that are larger than `DataConfig::max_text_bytes`, whose tokens are in a file.
#include "attend/input_error.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"
#include "attend/train/task_objective.h"
#include "io/files.h"
#include "support/subwords.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"
#include "train/text_pieces.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;

class LargeText : public testing::Test {
 protected:
  LargeText() {
    recipe_.text = {write("text.txt", lines(3000))};
    recipe_.max_seq_len() = 32;
    recipe_.data.token_dir = tokens_;
    recipe_.data.max_text_bytes = 100;
  }

  std::string write(const std::string& name, const std::string& text) {
    replace_file(directory_ / name, text);
    return directory_ / name;
  }
  static std::string lines(int count, const char* line_break = "\n") {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += fmt::format("the {} fox and the {} hen{}", i * i % 97, i % 13, line_break);
    return text;
  }
  /// Returns the recipe for the same text in memory.
  static Recipe in_memory(Recipe recipe) {
    recipe.data.max_text_bytes = int64_t{1} << 30;
    return recipe;
  }
  std::vector<fs::path> token_files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(tokens_)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    return files;
  }
  /// Returns the notes about the data as one text.
  static std::string notes_of(const Task& task) {
    std::string notes;
    for (const auto& note : task.data_notes()) notes += note.name + " " + note.text + "\n";
    return notes;
  }
  static std::vector<int64_t> ids_of(const Recipe& recipe, const Tokenizer& tokenizer) {
    auto whole = recipe;
    whole.max_seq_len() = 64;
    const auto batches =
        find_task("text").batches_of_file(recipe.text.front(), whole, tokenizer, {}, 1 << 20);
    std::vector<int64_t> ids;
    for (const auto& narrow : batches) {
      const auto batch = with_int64(narrow);
      if (ids.empty()) ids.push_back(batch.tokens.flatten()[0].item<int64_t>());
      const auto targets = batch.targets.contiguous();
      const auto* first = targets.const_data_ptr<int64_t>();
      ids.insert(ids.end(), first, first + targets.numel());
    }
    return ids;
  }

  TemporaryDirectory directory_;
  fs::path tokens_ = directory_ / "tokens";
  Recipe recipe_ = find_task("text").defaults;
};

void expect_same_data(const Task& task, const Task& expected) {
  EXPECT_EQ(task.tokenizer().files(), expected.tokenizer().files());
  EXPECT_EQ(task.data_checksum(), expected.data_checksum());
  EXPECT_EQ(task.num_training_sequences(), expected.num_training_sequences());
  EXPECT_EQ(task.samples().front().prompt, expected.samples().front().prompt);
  Sampler sampler(3);
  Sampler same(3);
  for (int i = 0; i < 3; ++i) {
    const auto batch = task.training_batch(8, sampler);
    const auto wanted = expected.training_batch(8, same);
    EXPECT_TRUE(batch.tokens.equal(wanted.tokens));
    EXPECT_TRUE(batch.targets.equal(wanted.targets));
  }
  const auto batches = task.validation_batches(7);
  const auto wanted = expected.validation_batches(7);
  ASSERT_EQ(batches.size(), wanted.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(batches[i].tokens.equal(wanted[i].tokens));
    EXPECT_TRUE(batches[i].targets.equal(wanted[i].targets));
  }
}

TEST_F(LargeText, HasTheBatchesOfTheSameTextInMemory) {
  recipe_.text.push_back(write("windows.txt", lines(100, "\r\n") + "no line break"));
  recipe_.text.push_back(write("more.txt", "\xEF\xBB\xBF" + lines(100)));
  for (const auto kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::word,
                          TokenizerKind::subword}) {
    if (kind == TokenizerKind::subword && !kSubwordsWork) continue;
    for (const bool keeps : {false, true}) {
      for (const bool has_val_text : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(kind), keeps, has_val_text));
        recipe_.data.tokenizer = kind;
        recipe_.data.vocab_size = 300;  // more than 256: two bytes per token
        recipe_.data.keep_carriage_returns = keeps;
        recipe_.data.val_text.clear();
        if (has_val_text) recipe_.data.val_text = {write("val.txt", lines(50, "\r\n"))};
        expect_same_data(*make_task(recipe_), *make_task(in_memory(recipe_)));
      }
    }
  }
}

TEST_F(LargeText, MaskedTokensAreThoseOfTheTextInMemory) {
  auto recipe = find_task("masked-lm").defaults;
  recipe.text = recipe_.text;
  recipe.max_seq_len() = 32;
  recipe.data.token_dir = tokens_;
  recipe.data.max_text_bytes = 100;
  for (const auto kind : {TokenizerKind::character, TokenizerKind::word}) {
    SCOPED_TRACE(to_string(kind));
    recipe.data.tokenizer = recipe_.data.tokenizer = kind;
    recipe.data.vocab_size = recipe_.data.vocab_size = 300;
    const auto task = make_task(recipe);
    expect_same_data(*task, *make_task(in_memory(recipe)));
    expect_same_data(*make_task(recipe), *task);
    EXPECT_TRUE(task->tokenizer().mask_token());
    EXPECT_FALSE(make_task(recipe_)->tokenizer().mask_token()) << "has a file of its own";
  }
  EXPECT_EQ(token_files().size(), 4);
}

TEST_F(LargeText, IsTokenizedOnce) {
  const auto first = make_task(recipe_);
  EXPECT_THAT(notes_of(*first), HasSubstr("new tokens"));
  ASSERT_EQ(token_files().size(), 1);
  EXPECT_THAT(notes_of(*first), HasSubstr(token_files().front().string()));
  const auto written = fs::last_write_time(token_files().front());
  const auto second = make_task(recipe_);
  EXPECT_THAT(notes_of(*second), Not(HasSubstr("new tokens")));
  expect_same_data(*second, *first);
  const std::shared_ptr<const Tokenizer> trained =
      make_tokenizer(recipe_.data.tokenizer, lines(3000), 0);
  expect_same_data(*make_task(recipe_, trained), *first);
  EXPECT_EQ(token_files().size(), 1);
  EXPECT_EQ(fs::last_write_time(token_files().front()), written);
}

TEST_F(LargeText, IsTokenizedAgainIfItOrTheTokenizerChanges) {
  const auto first = make_task(recipe_);
  write("text.txt", lines(3001));
  expect_same_data(*make_task(recipe_), *make_task(in_memory(recipe_)));
  EXPECT_NE(make_task(recipe_)->data_checksum(), first->data_checksum());
  EXPECT_EQ(token_files().size(), 1) << "the old tokens are replaced";
  const std::shared_ptr<const Tokenizer> other =
      make_tokenizer(recipe_.data.tokenizer, lines(3001) + "xyz", 0);
  expect_same_data(*make_task(recipe_, other), *make_task(in_memory(recipe_), other));
  EXPECT_EQ(token_files().size(), 2);
  recipe_.data.keep_carriage_returns = true;
  make_task(recipe_);
  EXPECT_EQ(token_files().size(), 3);
  EXPECT_THAT(notes_of(*make_task(recipe_, other)), HasSubstr("new tokens"));
}

TEST_F(LargeText, IsTokenizedAgainIfTheFileIsDamaged) {
  const auto first = make_task(recipe_);
  const auto path = token_files().front();
  const auto valid = read_bytes(path);
  for (const auto& content : {std::string(), valid.substr(0, valid.size() - 1), valid.substr(1)}) {
    replace_file(path, content);
    const auto task = make_task(recipe_);
    EXPECT_THAT(notes_of(*task), HasSubstr("new tokens"));
    expect_same_data(*task, *first);
  }
}

TEST_F(LargeText, TokensThatTheTokenizerDoesNotHaveAreRefused) {
  make_task(recipe_);
  const auto path = token_files().front();
  auto content = read_bytes(path);
  const auto text = lines(3000);
  const auto begin = static_cast<std::ptrdiff_t>(std::size_t{1} << 16);
  std::fill(content.begin() + begin, content.begin() + begin + 50'000, '\xFA');
  replace_file(path, content);
  const auto task = make_task(recipe_);
  Sampler sampler(3);
  EXPECT_THAT([&] { task->training_batch(50, sampler); },
              throws_naming<InputError>("250", path.string()));
}

TEST_F(LargeText, SeveralCallersWriteOneFile) {
  std::vector<std::string> notes(4);
  std::vector<std::thread> threads;
  for (auto& note : notes) threads.emplace_back([&] { note = notes_of(*make_task(recipe_)); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count_if(
                notes, [](const auto& note) { return note.find("new tokens") != note.npos; }),
            1);
  EXPECT_EQ(token_files().size(), 1);
}

TEST_F(LargeText, BatchesOfNarrowTokensHaveTheResultsOfWideOnes) {
  const auto task = make_task(recipe_);
  auto model = make_model(recipe_, task->tokenizer().size());
  const auto narrow = task->validation_batches(4).front();
  const auto wide = with_int64(narrow);
  EXPECT_EQ(narrow.tokens.scalar_type(), torch::kByte);
  EXPECT_EQ(wide.tokens.scalar_type(), torch::kLong);
  EXPECT_EQ(num_targets(narrow), num_targets(wide));
  const auto logits = logits_of(model, wide);
  EXPECT_TRUE(logits_of(model, narrow).equal(logits));
  EXPECT_EQ(evaluate(model, {narrow}).loss, evaluate(model, {wide}).loss);
}

TEST_F(LargeText, ReportsWhatIsTokenized) {
  static int64_t last_done;
  static int64_t last_count;
  recipe_.data.on_tokenized = [](int64_t done, int64_t count) {
    last_done = done;
    last_count = count;
  };
  make_task(recipe_);
  EXPECT_EQ(last_done, lines(3000).size());
  EXPECT_EQ(last_count, last_done);
}

TEST_F(LargeText, NamesTheDirectoryThatCannotBeWritten) {
  recipe_.data.token_dir = write("file", "no directory");
  EXPECT_THAT([&] { make_task(recipe_); },
              throws_naming<std::runtime_error>(recipe_.data.token_dir, "token_dir"));
}

TEST_F(LargeText, LimitsTheNumberOfWords) {
  recipe_.data.tokenizer = TokenizerKind::word;
  recipe_.data.vocab_size = 0;
  EXPECT_THAT([&] { make_task(recipe_); }, throws_naming<InputError>("vocab_size", "0", "100"));
}

TEST_F(LargeText, InvalidBytesAreNamedWithTheirPosition) {
  auto text = lines(200'000);  // several pieces
  const auto at = text.rfind("fox");
  text[at] = '\xFF';
  recipe_.text = {write("invalid.txt", text)};
  EXPECT_THAT([&] { make_task(recipe_); },
              throws_naming<InputError>(recipe_.text.front(), "0xFF", fmt::format("{}", at),
                                        "line 200000"));
  EXPECT_TRUE(token_files().empty());
}

TEST_F(LargeText, SamplesConsistOfWholeLines) {
  const auto text = lines(20'000);
  const auto path = write("sampled.txt", text);
  const auto sample = sample_of_texts({path, path}, 100'000, recipe_.data);
  EXPECT_GT(sample.size(), 50'000);
  EXPECT_LE(sample.size(), 100'000);
  std::string_view rest = sample;
  std::size_t from = 0;
  int beginnings = 0;  // the second copy of the text begins once
  while (!rest.empty()) {
    const auto line = "\n" + std::string(rest.substr(0, rest.find('\n') + 1));
    auto found = ("\n" + text).find(line, from);
    if (found == text.npos) {
      ++beginnings;
      found = ("\n" + text).find(line);
    }
    ASSERT_NE(found, text.npos) << line;
    from = found;
    rest.remove_prefix(line.size() - 1);
  }
  EXPECT_EQ(beginnings, 1);
}

TEST_F(LargeText, SamplesOfLongLinesHaveAllParts) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::string(999, static_cast<char>('a' + i % 26)) + "\n";
  const auto path = write("long.txt", text);
  const auto sample = sample_of_texts({path}, 256'000, recipe_.data);  // a line break in each part
  EXPECT_GT(sample.size(), 250'000);
}

/// Returns published tokenizers that treat spaces and line breaks in different ways.
std::vector<std::shared_ptr<const PublishedTokenizer>> published_tokenizers() {
  using nlohmann::json;
  const json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  const json special{{"<s>", {{"id", "<s>"}, {"ids", {0}}, {"tokens", {"<s>"}}}},
                     {"</s>", {{"id", "</s>"}, {"ids", {1}}, {"tokens", {"</s>"}}}}};
  const auto token = [](const char* id) {
    return json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json templates{{"type", "TemplateProcessing"},
                       {"single", {token("<s>"), text, token("</s>")}},
                       {"pair", {token("<s>"), text, token("</s>")}},
                       {"special_tokens", special}};
  const auto metaspace = [](const char* scheme) {
    return json{
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
  };
  const std::vector<std::string> tokens{"<s>", "</s>", "<unk>", "a",  "b",  "c",  "d",   "ab",
                                        "cd",  "Ġ",    "Ċ",     "Ġa", "▁",  "▁a", "▁ab", "ĠĠ",
                                        "Ġab", "ĊĊ",   "▁▁",    ".",  ".Ċ", "\n"};
  const json merges{"a b", "c d", "Ġ a", "▁ a", "▁a b", "Ġ Ġ", "Ġa b", "Ċ Ċ", "▁ ▁", ". Ċ"};
  const auto model = bpe(tokens, merges, {{"unk_token", "<unk>"}});
  const auto punctuation_and_lines =
      json{{"type", "Sequence"},
           {"pretokenizers",
            {{{"type", "Split"},
              {"pattern",
               {{"Regex",
                 "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*"
                 "[\\r\\n]+|\\s+(?!\\S)|\\s+"}}},
              {"behavior", "Isolated"},
              {"invert", false}},
             {{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", false}}}}};
  std::vector<json> files;
  for (const auto& pre_tokenizer :
       {byte_level, punctuation_and_lines, metaspace("first"), metaspace("always")}) {
    files.push_back(
        tokenizer_json(model, {{"pre_tokenizer", pre_tokenizer}, {"post_processor", templates}}));
  }
  files.push_back(tokenizer_json(
      model, {{"normalizer",
               {{"type", "Sequence"},
                {"normalizers",
                 {{{"type", "Prepend"}, {"prepend", "▁"}},
                  {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
              {"post_processor", templates}}));
  std::vector<std::shared_ptr<const PublishedTokenizer>> all;
  for (const auto& file : files) {
    all.push_back(std::make_shared<PublishedTokenizer>(
        TextTokenizer::parse(file.dump()),
        PublishedModel{.vocab_size = static_cast<int64_t>(tokens.size()), .max_length = 5}));
  }
  return all;
}

TEST_F(LargeText, APublishedTokenizerGivesTheTokensOfTheWholeText) {
  std::string text;  // several pieces
  for (int i = 0; text.size() < 5'000'000; ++i)
    text += fmt::format("{}{}", i % 7 == 0 ? "ab. " : "abc cd", i % 3 == 0 ? "\n\n" : "  ");
  recipe_.text = {write("long.txt", text)};
  recipe_.data.tokenizer = TokenizerKind::published;
  for (std::size_t i = 0; const auto& tokenizer : published_tokenizers()) {
    SCOPED_TRACE(i++);
    const auto plain = tokenizer->token_ids(text);
    std::vector<int64_t> expected{0};  // special tokens once
    expected.insert(expected.end(), plain.begin(), plain.end());
    expected.push_back(1);
    EXPECT_TRUE(ids_of(recipe_, *tokenizer) == expected);
    EXPECT_TRUE(ids_of(in_memory(recipe_), *tokenizer) == expected);
  }
  EXPECT_EQ(token_files().size(), published_tokenizers().size());
}

TEST_F(LargeText, APublishedTokenizerIsThatOfTheFile) {
  recipe_.text = {write("short.txt", lines(200))};
  recipe_.data.tokenizer = TokenizerKind::published;
  const auto tokenizer = published_tokenizers().front();
  const auto task = make_task(recipe_, tokenizer);
  expect_same_data(*task, *make_task(in_memory(recipe_), tokenizer));
  EXPECT_THAT(notes_of(*make_task(recipe_, tokenizer)), Not(HasSubstr("new tokens")));
}

}  // namespace
}  // namespace attend::train
