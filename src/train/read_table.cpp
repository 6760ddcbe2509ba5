#include "attend/train/read_table.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/files.h"
#include "io/parse_json.h"

#include <c10/util/Exception.h>
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
class CsvReader {
 public:
  CsvReader(const fs::path& path, Format format, std::string_view content, TextEncoding encoding,
            std::function<void(const Fields&, int64_t line)> use_row)
      : path_(path.string()), content_(content), encoding_(encoding), use_row_(std::move(use_row)) {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_delim(&parser_, format.delimiter);
    csv_set_quote(&parser_, format.quote);
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });  // spaces are part of fields
  }
  ~CsvReader() { csv_free(&parser_); }
  CsvReader(const CsvReader&) = delete;
  CsvReader& operator=(const CsvReader&) = delete;

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
    static_cast<CsvReader*>(self)->row_.emplace_back(static_cast<const char*>(bytes), size);
  }
  static void end_row(int, void* self) {
    auto* reader = static_cast<CsvReader*>(self);
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

std::string quoted(const std::string& name) {
  return fmt::format("'{}'", printable(name));
}

/// Returns "a and b" of the options of columns; empty if none has an option.
std::string options_of(const std::vector<TableColumn>& columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) {
    if (!column.option.empty()) names.push_back(fmt::format("`{}`", column.option));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// Returns the indices of the columns in the header. Throws InputError if a column is missing or
/// ambiguous, or if two columns are the same. The quotes show spaces around a name.
std::vector<std::size_t> find_columns(const Fields& header,
                                      const std::vector<TableColumn>& columns) {
  std::vector<std::size_t> indices;
  std::vector<TableColumn> missing;
  for (const auto& column : columns) {
    const auto index = find_column(header, column.name);
    if (!index) {
      missing.push_back(column);
      continue;
    }
    const auto same = std::find(indices.begin(), indices.end(), *index);
    if (same != indices.end() && missing.empty()) {
      const auto& first = columns[static_cast<std::size_t>(same - indices.begin())];
      throw InputError(
          fmt::format("the column {} is needed once, but chosen twice; set different "
                      "names with {}",
                      quoted(column.name), options_of({first, column})));
    }
    indices.push_back(*index);
  }
  if (missing.empty()) return indices;
  std::vector<std::string> wanted;
  for (const auto& column : missing) wanted.push_back("one column " + quoted(column.name));
  std::vector<std::string> found;
  for (const auto& name : header) found.push_back(quoted(name));
  const auto options = options_of(missing);
  throw InputError(
      fmt::format("expected {}, found {}{}", fmt::join(wanted, " and "),
                  found.empty() ? "no columns" : fmt::format("columns {}", fmt::join(found, ", ")),
                  options.empty() ? "" : fmt::format("; set {} for another name", options)));
}

/// Collects the columns of a table.
class Collector {
 public:
  explicit Collector(const std::vector<TableColumn>& columns) : columns_(columns) {
    table_.columns.resize(columns.size());
  }

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
    add(line, [&](std::size_t i) { return row[indices_[i]]; });
  }

  /// `object`: a line of a .jsonl file.
  void use_object(const nlohmann::ordered_json& object, int64_t line) {
    if (!object.is_object()) {
      throw InputError(fmt::format("expected a JSON object with keys such as {}, found {}",
                                   quoted(columns_.front().name), object.type_name()));
    }
    Fields keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    if (header_.empty() || keys != header_) set_header(keys);
    add(line, [&](std::size_t i) {
      const auto& value = object.at(keys[indices_[i]]);
      if (value.is_array()) table_.lists.emplace(i, table_.line_numbers.size());
      return field_of(value, columns_[i]);
    });
  }

  Table finish(const fs::path& path) && {
    if (table_.line_numbers.empty())
      throw InputError(path.string() + ": expected rows, found none");
    return std::move(table_);
  }

 private:
  void set_header(const Fields& header) {
    indices_ = find_columns(header, columns_);
    header_ = header;
  }

  /// Returns the value of a key as a table contains it. Empty for null.
  static std::string field_of(const nlohmann::ordered_json& value, const TableColumn& column) {
    if (value.is_null()) return {};
    if (value.is_object() || (value.is_array() && !column.may_be_list)) {
      throw InputError(fmt::format("the column {}: expected a string{} or a number, found an {}",
                                   quoted(column.name), column.may_be_list ? ", a list" : "",
                                   value.type_name()));
    }
    auto field = value.is_string() ? value.get<std::string>() : value.dump();
    if (field.find('\0') == std::string::npos) return field;
    throw InputError(fmt::format("the column {}: expected text, found a zero byte in '{}'",
                                 quoted(column.name), printable(field)));
  }

  /// Adds a row; `field(i)` returns the text of column i.
  template <typename Field>
  void add(int64_t line, const Field& field) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto& column = columns_[i];
      auto text = field(i);
      if (text.empty() && !column.may_be_empty)
        throw InputError(fmt::format("the column {} is empty", quoted(column.name)));
      if (column.encoding == TextEncoding::utf8)
        check_utf8(text, fmt::format("the column {}", quoted(column.name)));
      table_.columns[i].push_back(std::move(text));
    }
    table_.line_numbers.push_back(line);
  }

  const std::vector<TableColumn>& columns_;
  Fields header_;
  std::vector<std::size_t> indices_;  // of the columns, in the header
  Table table_;
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

Table read_table(const fs::path& path, const std::vector<TableColumn>& columns, int64_t max_bytes) {
  const auto extension = table_extension(path);
  if (!extension) {
    throw InputError(fmt::format("{}: unknown table format, expected a {} file", path.string(),
                                 kTableExtensions));
  }
  TORCH_CHECK_VALUE(!columns.empty(), "read_table requires columns, found none");
  const bool is_utf8 = std::ranges::all_of(
      columns, [](const auto& column) { return column.encoding == TextEncoding::utf8; });
  const auto encoding = is_utf8 ? TextEncoding::utf8 : TextEncoding::bytes;
  Collector collector(columns);
  check_is_regular(path);
  const auto bytes = read_bytes(path, text_limit(max_bytes));
  const auto content = without_byte_order_mark(bytes, path.string());
  const auto in_line = [&](int64_t line, const std::function<void()>& use) {
    with_source(fmt::format("{}:{}", path.string(), line), use);
  };
  if (extension == Extension::jsonl) {
    for_each_line(content, [&](std::string_view text, int64_t line) {
      in_line(line, [&] { collector.use_object(parse_ordered_json(text), line); });
    });
  } else {
    CsvReader(path, format_of(*extension, content), content, encoding,
              [&](const Fields& row, int64_t line) {
                in_line(line, [&] { collector.use_row(row, line); });
              })
        .read();
  }
  return std::move(collector).finish(path);
}

std::vector<std::string> texts_of_list(const std::string& cell, const std::string& column) {
  std::vector<std::string> texts;
  for (const auto& each : parse_json(cell)) {
    if (each.is_structured() || each.is_null()) {
      throw InputError(
          fmt::format("the column {}: found {} in the list, expected a string or number",
                      quoted(column), printable(each.dump())));
    }
    texts.push_back(each.is_string() ? each.get<std::string>() : each.dump());
  }
  return texts;
}

}  // namespace attend::train
