#include "attend/train/read_labelled_lines.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/files.h"
#include "io/parse_json.h"

#include <csv.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

using Fields = std::vector<std::string>;

std::string lower_case(std::string text) {
  for (auto& c : text) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

enum class Extension { csv, tsv, jsonl };

/// Returns the extension of a table, which may be in upper case; std::nullopt for another file.
std::optional<Extension> table_extension(const fs::path& path) {
  const auto extension = lower_case(path.extension().string());
  if (extension == ".csv") return Extension::csv;
  if (extension == ".tsv") return Extension::tsv;
  if (extension == ".jsonl") return Extension::jsonl;
  return std::nullopt;
}

struct Format {
  unsigned char delimiter;
  unsigned char quote;
};

/// Returns the most frequent of the delimiters in the first line of a table, outside of quotes.
unsigned char delimiter_of(std::string_view content) {
  std::array<std::pair<char, int64_t>, 3> counts{{{',', 0}, {';', 0}, {'\t', 0}}};
  bool quoted = false;
  for (const char c : content.substr(0, content.find('\n'))) {
    quoted ^= c == '"';
    for (auto& [delimiter, count] : counts) count += !quoted && c == delimiter;
  }
  const auto* most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return static_cast<unsigned char>(most->first);
}

Format format_of(Extension extension, std::string_view content) {
  if (extension == Extension::csv) return {delimiter_of(content), CSV_QUOTE};
  return {CSV_TAB, '\0'};  // no quotes: NUL is refused
}

/// Parses a table with libcsv. Passes one line at a time to libcsv, so that error messages can
/// contain the number of the line.
class TableReader {
 public:
  TableReader(const fs::path& path, Format format, std::string_view content, TextEncoding encoding,
              std::function<void(const Fields&, int64_t line)> use_row)
      : path_(path.string()), content_(content), encoding_(encoding), use_row_(std::move(use_row)) {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_delim(&parser_, format.delimiter);
    csv_set_quote(&parser_, format.quote);
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });  // spaces are part of fields
  }
  ~TableReader() { csv_free(&parser_); }
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  void read() {
    auto content = content_;
    while (!content.empty()) {
      const auto end = std::min(content.find('\n'), content.size() - 1) + 1;
      read_line(content.substr(0, end));
      content.remove_prefix(end);
    }
    if (csv_fini(&parser_, &add_field, &end_row, this) != 0) {
      throw InputError(fmt::format("{}: unterminated quote", place(begin_)));
    }
    use_rows();
  }

 private:
  void read_line(std::string_view line) {
    ++line_;
    const auto here = place(line_);
    if (encoding_ == TextEncoding::utf8) check_utf8(line, here);
    if (const auto zero = line.find('\0'); zero != std::string_view::npos) {
      throw InputError(
          fmt::format("{}: expected text, found a zero byte at offset {}", here, zero));
    }
    if (row_ended_) {
      if (line == "\n" || line == "\r\n") return;
      begin_ = line_;
      row_ended_ = false;
    }
    if (csv_parse(&parser_, line.data(), line.size(), &add_field, &end_row, this) != line.size()) {
      throw InputError(
          fmt::format("{}: misplaced quote: if a field contains quotes, double each of them and "
                      "put quotes around the field, e.g. \"a \"\"b\"\" c\"",
                      here));
    }
    use_rows();
  }

  // Passes the complete rows to `use_row_`. This function is called only after libcsv has returned,
  // since an exception of `use_row_` must not pass through C code.
  void use_rows() {
    for (const auto& row : rows_) use_row_(row, begin_);
    rows_.clear();
  }

  static void add_field(void* bytes, std::size_t size, void* self) {
    static_cast<TableReader*>(self)->row_.emplace_back(static_cast<const char*>(bytes), size);
  }
  static void end_row(int, void* self) {
    auto* reader = static_cast<TableReader*>(self);
    reader->rows_.push_back(std::move(reader->row_));
    reader->row_.clear();
    reader->row_ended_ = true;
  }

  std::string place(int64_t line) const { return fmt::format("{}:{}", path_, line); }

  std::string path_;
  std::string_view content_;
  TextEncoding encoding_;
  std::function<void(const Fields&, int64_t line)> use_row_;
  csv_parser parser_{};
  Fields row_;
  std::vector<Fields> rows_;
  bool row_ended_ = true;
  int64_t line_ = 0;
  int64_t begin_ = 0;  // number of the first line of the row
};

/// The indices of the columns `text` and `label`.
struct Columns {
  std::size_t text, label;
};

/// Returns the index of the column; std::nullopt unless there is exactly one.
std::optional<std::size_t> find_column(Fields header, std::string name) {
  if (std::find(header.begin(), header.end(), name) == header.end()) {
    for (auto& column : header) column = lower_case(column);
    name = lower_case(name);
  }
  const auto found = std::find(header.begin(), header.end(), name);
  if (std::count(header.begin(), header.end(), name) != 1) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

/// Throws InputError if a column is missing, ambiguous, or both texts and labels. The quotes show
/// spaces around a name.
Columns find_columns(const Fields& header, const LabelledColumns& names) {
  const auto quoted = [](const std::string& name) { return fmt::format("'{}'", printable(name)); };
  const auto text = find_column(header, names.text);
  const auto label = find_column(header, names.label);
  if (text && label && *text != *label) return {*text, *label};
  if (text && label) {
    throw InputError(
        fmt::format("the column {} is the column of texts and of labels; set two different names "
                    "with `text_column` and `label_column`",
                    quoted(names.text)));
  }
  std::vector<std::string> wanted;
  std::vector<std::string> keys;
  if (!text) wanted.push_back("one column " + quoted(names.text));
  if (!text) keys.emplace_back("`text_column`");
  if (!label) wanted.push_back("one column " + quoted(names.label));
  if (!label) keys.emplace_back("`label_column`");
  std::vector<std::string> found;
  for (const auto& name : header) found.push_back(quoted(name));
  throw InputError(
      fmt::format("expected {}, found {}; set {} for another name", fmt::join(wanted, " and "),
                  found.empty() ? "no columns" : fmt::format("columns {}", fmt::join(found, ", ")),
                  fmt::join(keys, " and ")));
}

/// Collects texts and labels.
class Collector {
 public:
  explicit Collector(const LabelledColumns& names) : names_(names) {}

  /// `line`: number of the first line of the row. The first row names the columns.
  void use_row(const Fields& row, int64_t line) {
    if (header_.empty()) {
      for (const auto& name : row) check_utf8(name, "a column name");
      set_header(row);
      return;
    }
    if (row.size() != header_.size()) {
      throw InputError(fmt::format("expected {} fields, as in the first line, found {}",
                                   header_.size(), row.size()));
    }
    add(row[columns_.text], row[columns_.label], line);
  }

  /// `object`: a line of a .jsonl file.
  void use_object(const nlohmann::json& object, int64_t line) {
    if (!object.is_object()) {
      throw InputError(fmt::format("expected a JSON object with keys such as '{}', found {}",
                                   printable(names_.text), object.type_name()));
    }
    Fields keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    if (header_.empty() || keys != header_) set_header(keys);
    add(field_of(object.at(keys[columns_.text])), field_of(object.at(keys[columns_.label])), line);
  }

  LabelledLines finish(const fs::path& path) && {
    if (lines_.texts.empty()) throw InputError(path.string() + ": expected rows, found none");
    return std::move(lines_);
  }

 private:
  void set_header(const Fields& header) {
    columns_ = find_columns(header, names_);
    header_ = header;
  }

  /// Returns the value of a key as a table contains it. Empty for null.
  static std::string field_of(const nlohmann::json& value) {
    if (value.is_null()) return {};
    if (value.is_structured()) {
      throw InputError(fmt::format("expected a string or a number as text and label, found an {}",
                                   value.type_name()));
    }
    auto field = value.is_string() ? value.get<std::string>() : value.dump();
    if (field.find('\0') == std::string::npos) return field;
    throw InputError(fmt::format("expected text, found a zero byte in '{}'", printable(field)));
  }

  void add(const std::string& text, const std::string& label, int64_t line) {
    if (text.empty()) throw InputError("the text is empty");
    if (label.empty()) throw InputError("the label is empty");
    check_utf8(label, "the label");  // labels become names of classes in JSON
    lines_.texts.push_back(text);
    lines_.labels.push_back(label);
    lines_.line_numbers.push_back(line);
  }

  LabelledColumns names_;
  Fields header_;
  Columns columns_{};
  LabelledLines lines_;
};

/// Calls `use` with each line that is not blank, and its number.
void for_each_line(std::string_view content,
                   const std::function<void(std::string_view, int64_t line)>& use) {
  for (int64_t number = 1; !content.empty(); ++number) {
    const auto line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(line.size() + 1, content.size()));
    if (line.find_first_not_of(" \t\r") != line.npos) use(line, number);
  }
}

}  // namespace

bool has_table_extension(const fs::path& path) {
  return table_extension(path).has_value();
}

LabelledLines read_labelled_lines(const fs::path& path, const LabelledColumns& columns,
                                  int64_t max_bytes, TextEncoding encoding) {
  const auto extension = table_extension(path);
  if (!extension) {
    throw InputError(fmt::format("{}: unknown table format, expected a {} file", path.string(),
                                 kTableExtensions));
  }
  Collector collector(columns);
  check_is_regular(path);
  const auto bytes = read_bytes(path, text_limit(max_bytes));
  const auto content = without_byte_order_mark(bytes, path.string());
  const auto in_line = [&](int64_t line, const std::function<void()>& use) {
    with_source(fmt::format("{}:{}", path.string(), line), use);
  };
  if (extension == Extension::jsonl) {
    for_each_line(content, [&](std::string_view text, int64_t line) {
      in_line(line, [&] { collector.use_object(parse_json(text), line); });
    });
  } else {
    TableReader(path, format_of(*extension, content), content, encoding,
                [&](const Fields& row, int64_t line) {
                  in_line(line, [&] { collector.use_row(row, line); });
                })
        .read();
  }
  return std::move(collector).finish(path);
}

}  // namespace attend::train
