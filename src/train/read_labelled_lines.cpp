#include "attend/train/read_labelled_lines.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "io/utf8.h"

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

enum class Extension { csv, tsv };

/// Returns the extension of a table, which may be in upper case; std::nullopt for another file.
std::optional<Extension> table_extension(const fs::path& path) {
  const auto extension = lower_case(path.extension().string());
  if (extension == ".csv") return Extension::csv;
  if (extension == ".tsv") return Extension::tsv;
  return std::nullopt;
}

struct Format {
  unsigned char delimiter;
  unsigned char quote;
};

/// Returns the most frequent of the delimiters in the first line of a table, outside of quotes.
unsigned char delimiter_of(std::string_view content) {
  std::array<std::pair<unsigned char, int64_t>, 3> counts{{{',', 0}, {';', 0}, {'\t', 0}}};
  bool quoted = false;
  for (const char c : content.substr(0, content.find('\n'))) {
    quoted ^= c == '"';
    for (auto& [delimiter, count] : counts) count += !quoted && c == delimiter;
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

Format format_of(const fs::path& path, std::string_view content) {
  const auto extension = table_extension(path);
  if (extension == Extension::csv) return {delimiter_of(content), CSV_QUOTE};
  if (extension == Extension::tsv) return {CSV_TAB, '\0'};  // no quotes: NUL is refused
  throw InputError(
      fmt::format("{}: unknown table format, expected a .tsv or .csv file", path.string()));
}

/// Parses a table with libcsv. Passes one line at a time to libcsv, so that error messages can
/// contain the number of the line.
class TableReader {
 public:
  TableReader(const fs::path& path, std::string_view content, TextEncoding encoding,
              std::function<void(const Fields&, int64_t line)> use_row)
      : path_(path.string()), content_(content), encoding_(encoding), use_row_(std::move(use_row)) {
    const auto format = format_of(path, content);
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

/// The number of columns, and the indices of the columns `text` and `label`.
struct Columns {
  std::size_t count, text, label;
};

/// Returns the index of the column. `key`: key of a recipe that sets the name.
std::size_t find_column(Fields header, std::string name, const char* key) {
  const auto wanted = name;
  const auto columns = fmt::format("{}", fmt::join(header, ", "));
  if (std::find(header.begin(), header.end(), name) == header.end()) {
    for (auto& column : header) column = lower_case(column);
    name = lower_case(name);
  }
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end() || std::count(header.begin(), header.end(), name) > 1) {
    throw InputError(
        fmt::format("expected one column '{}', found columns {}; set `{}` for another name", wanted,
                    printable(columns), key));
  }
  return static_cast<std::size_t>(found - header.begin());
}

/// Collects texts and labels; the first row names the columns.
class Collector {
 public:
  explicit Collector(const LabelledColumns& names) : names_(names) {}

  /// `line`: number of the first line of the row.
  void use(const Fields& row, int64_t line) {
    if (columns_.count == 0) {
      for (const auto& name : row) check_utf8(name, "a column name");
      columns_ = {row.size(), find_column(row, names_.text, "text_column"),
                  find_column(row, names_.label, "label_column")};
      if (columns_.text == columns_.label) {
        throw InputError(
            fmt::format("the column '{}' is the column of texts and of labels; set two different "
                        "names with `text_column` and `label_column`",
                        names_.text));
      }
      return;
    }
    if (row.size() != columns_.count) {
      throw InputError(fmt::format("expected {} fields, as in the first line, found {}",
                                   columns_.count, row.size()));
    }
    for (const auto column : {columns_.text, columns_.label}) {
      if (!row[column].empty()) continue;
      const auto* name = column == columns_.text ? "text" : "label";
      throw InputError(fmt::format("the {} is empty", name));
    }
    check_utf8(row[columns_.label], "the label");  // labels become names of classes in JSON
    lines_.texts.push_back(row[columns_.text]);
    lines_.labels.push_back(row[columns_.label]);
    lines_.line_numbers.push_back(line);
  }

  LabelledLines finish(const fs::path& path) && {
    if (lines_.texts.empty()) {
      throw InputError(
          fmt::format("{}: expected rows after the column names, found none", path.string()));
    }
    return std::move(lines_);
  }

 private:
  LabelledColumns names_;
  Columns columns_{};
  LabelledLines lines_;
};

}  // namespace

bool has_table_extension(const fs::path& path) {
  return table_extension(path).has_value();
}

LabelledLines read_labelled_lines(const fs::path& path, const LabelledColumns& columns,
                                  int64_t max_bytes, TextEncoding encoding) {
  Collector collector(columns);
  check_is_regular(path);
  const auto bytes = read_bytes(path, text_limit(max_bytes));
  const auto content = without_byte_order_mark(bytes, path.string());
  TableReader reader(path, content, encoding, [&](const Fields& row, int64_t line) {
    with_source(fmt::format("{}:{}", path.string(), line), [&] { collector.use(row, line); });
  });
  reader.read();
  return std::move(collector).finish(path);
}

}  // namespace attend::train
