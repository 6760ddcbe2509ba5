#include "train/conll.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/train/read_table.h"
#include "attend/train/token_predictions.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace attend::train {
namespace {

void check_word(const std::string& word, const std::string& tag) {
  if (word.empty()) throw InputError("found an empty word");
  if (tag.empty()) throw InputError("found an empty tag");
}

void check_sentence(const TaggedSentence& sentence) {
  const auto& [words, tags, line] = sentence;
  if (words.empty()) throw InputError("found a sentence without words, expected at least one");
  if (words.size() != tags.size()) {
    throw InputError(fmt::format("found {} words and {} tags, expected a tag for each word",
                                 words.size(), tags.size()));
  }
  for (std::size_t i = 0; i < words.size(); ++i) check_word(words[i], tags[i]);
}

std::vector<TaggedSentence> read_rows(const std::filesystem::path& path, const DataConfig& data) {
  const auto table =
      read_table(path,
                 {{.name = data.text_column,
                   .option = "text_column",
                   .encoding = text_encoding(data.tokenizer),
                   .may_be_list = true},
                  {.name = data.label_column, .option = "label_column", .may_be_list = true}},
                 data.max_text_bytes);
  std::vector<TaggedSentence> sentences;
  for (std::size_t i = 0; i < table.line_numbers.size(); ++i) {
    const auto texts = [&](std::size_t column, const std::string& name) {
      const auto& cell = table.columns[column][i];
      return table.lists.contains({column, i}) ? texts_of_list(cell, name) : split_words(cell);
    };
    const auto line = table.line_numbers[i];
    with_source(fmt::format("{}:{}", path.string(), line), [&] {
      sentences.push_back({texts(0, data.text_column), texts(1, data.label_column), line});
      check_sentence(sentences.back());
    });
  }
  return sentences;
}

std::vector<std::string> columns_of(std::string_view line) {
  if (line.find('\t') == line.npos) return split_words(line);
  std::vector<std::string> columns;
  for (std::size_t begin = 0; begin <= line.size();) {
    const auto end = std::min(line.find('\t', begin), line.size());
    columns.emplace_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

/// Returns the index of a column, of `count`. `name`: its number; `usual`: the name that stands for
/// the number `number`.
std::size_t index_of_column(const char* key, const std::string& name, std::string_view usual,
                            std::size_t number, std::size_t count) {
  if (name != usual) {
    const auto* last = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), last, number);
    if (error != std::errc() || stop != last) number = 0;
  }
  if (number >= 1 && number <= count) return number - 1;
  throw InputError(fmt::format(
      "{} is '{}', expected the number of a column from 1 to {}, since the columns have no names",
      key, printable(name), count));
}

/// Reads the lines of a file in the format of CoNLL.
class ConllReader {
 public:
  ConllReader(const std::filesystem::path& path, const DataConfig& data)
      : data_(data), is_conllu_(path.extension() == ".conllu") {}

  /// Sets the columns by a line that is certainly one of a word. A first word may begin with #, so
  /// this function sees all lines before `read_line`.
  void find_columns(std::string_view line) {
    if (count_ > 0 || line.starts_with('#')) return;
    const auto columns = columns_of(line);
    if (!ends_sentence(columns)) set_columns(columns.size());
  }

  void read_line(std::string_view line, int64_t number) {
    const auto columns = columns_of(line);
    if (ends_sentence(columns)) return finish_sentence();
    if (is_comment(line, columns)) return;
    if (columns.size() != count_) {
      throw InputError(fmt::format("found {} columns, expected {}, as in the first line of a word",
                                   columns.size(), count_));
    }
    if (is_conllu_ && columns.front().find_first_of("-.") != std::string::npos) return;
    auto& [words, tags, first_line] = sentence_;
    if (words.empty()) first_line = number;
    check_word(columns[word_], columns[tag_]);
    words.push_back(columns[word_]);
    tags.push_back(columns[tag_]);
  }

  std::vector<TaggedSentence> finish() {
    finish_sentence();
    if (sentences_.empty()) throw InputError("expected lines with a word and its tag, found none");
    return std::move(sentences_);
  }

 private:
  static bool ends_sentence(const std::vector<std::string>& columns) {
    return columns.empty() || columns.front() == "-DOCSTART-" ||
           std::ranges::all_of(columns,
                               [](const auto& column) { return split_words(column).empty(); });
  }

  bool is_comment(std::string_view line, const std::vector<std::string>& columns) const {
    if (!columns.front().starts_with('#') || !sentence_.words.empty()) return false;
    // At the beginning of a file, "# id = 1" is not a word.
    const bool is_heading = sentences_.empty() && line.starts_with("# ");
    return is_conllu_ || columns.size() != count_ || is_heading;
  }

  void set_columns(std::size_t count) {
    if (count < 2)
      throw InputError("found 1 column, expected at least 2: a word and its tag in each line");
    count_ = count;
    word_ =
        index_of_column("text_column", data_.text_column, kWordsColumn, is_conllu_ ? 2 : 1, count);
    tag_ = index_of_column("label_column", data_.label_column, kTagsColumn, is_conllu_ ? 4 : count,
                           count);
  }

  void finish_sentence() {
    if (!sentence_.words.empty()) sentences_.push_back(std::move(sentence_));
    sentence_ = {};
  }

  const DataConfig& data_;
  bool is_conllu_;
  std::size_t count_ = 0;  // of columns; 0 before the first word
  std::size_t word_ = 0;
  std::size_t tag_ = 0;
  TaggedSentence sentence_;
  std::vector<TaggedSentence> sentences_;
};

std::vector<TaggedSentence> read_conll(const std::filesystem::path& path, const DataConfig& data) {
  const auto text = read_text(path, text_limit(data.max_text_bytes), text_encoding(data.tokenizer));
  ConllReader reader(path, data);
  const auto for_each_line = [&](auto use) {
    int64_t number = 0;
    for (auto rest = std::string_view(text); !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      auto line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++number;
      with_source(fmt::format("{}:{}", path.string(), number), [&] { use(line, number); });
    }
  };
  for_each_line([&](std::string_view line, int64_t) { reader.find_columns(line); });
  for_each_line([&](std::string_view line, int64_t number) { reader.read_line(line, number); });
  return with_source(path.string(), [&] { return reader.finish(); });
}

}  // namespace

std::vector<TaggedSentence> read_tagged_sentences(const std::filesystem::path& path,
                                                  const DataConfig& data) {
  const bool is_table =
      has_table_extension(path) && ::strcasecmp(path.extension().c_str(), ".tsv") != 0;
  return is_table ? read_rows(path, data) : read_conll(path, data);
}

}  // namespace attend::train
