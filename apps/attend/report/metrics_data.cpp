#include "report/metrics_data.h"

#include "attend/input_error.h"
#include "attend/train/json_lines.h"
#include "report/thinned.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

/// Rows of metrics with the same keys.
class MetricsTable {
 public:
  struct Row {
    int64_t step = 0;
    std::vector<double> values;  // of the keys; NaN for null and for a key that is missing
  };

  /// `keys`: all keys except `step`. `has_loss`: the first key is a loss, so that the row in which
  /// it is lowest is kept.
  MetricsTable(std::vector<const char*> keys, bool has_loss, std::size_t max_rows)
      : keys_(std::move(keys)), has_loss_(has_loss), is_present_(keys_.size()), rows_(max_rows) {}

  /// Adds a line. Throws InputError with the name of the file if a value is neither a number nor
  /// null.
  void add(const json& line, const fs::path& path) {
    Row row{.step = line.at("step").get<int64_t>(), .values = {}};
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const auto value = line.find(keys_[i]);
      row.values.push_back(NAN);
      if (value == line.end()) continue;
      is_present_[i] = true;
      if (value->is_number()) {
        row.values.back() = value->get<double>();
      } else if (!value->is_null()) {
        throw InputError(fmt::format("{}: damaged: {} of step {} is not a number", path.string(),
                                     keys_[i], row.step));
      }
    }
    const auto loss = has_loss_ ? row.values.front() : NAN;
    rows_.add(std::move(row), loss);
  }

  /// Returns a column for `step` and for each key that a line had. NaN is null.
  ordered_json columns() const {
    ordered_json columns{{"step", ordered_json::array()}};
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (is_present_[i]) columns[keys_[i]] = ordered_json::array();
    }
    for (const auto& row : rows_.rows()) {
      columns["step"].push_back(row.step);
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        if (!is_present_[i]) continue;
        const auto value = row.values[i];
        columns[keys_[i]].push_back(std::isnan(value) ? ordered_json(nullptr)
                                                      : ordered_json(value));
      }
    }
    return columns;
  }

  const Thinned<Row>& rows() const { return rows_; }

 private:
  std::vector<const char*> keys_;
  bool has_loss_;
  std::vector<bool> is_present_;
  Thinned<Row> rows_;
};

}  // namespace

MetricsData metrics_of(const fs::path& path, bool is_finished, std::size_t max_rows,
                       std::vector<std::string>& notes) {
  MetricsData data;
  if (!fs::exists(path)) return data;
  MetricsTable training(
      {"train_loss", "train_accuracy", "lr", "grad_norm", "tokens_per_second", "seconds"}, false,
      max_rows);
  MetricsTable evaluations({"val_loss", "val_accuracy"}, true, max_rows);
  train::for_each_json_line(path, is_finished, [&](const std::string& text) {
    const auto line = json::parse(text);
    (line.contains("val_loss") ? evaluations : training).add(line, path);
  });
  const auto add = [&](const char* name, const MetricsTable& table) {
    const auto count = table.rows().count();
    if (count == 0) return;
    const auto& columns = data.columns[name] = table.columns();
    if (const auto shown = columns.at("step").size(); shown < count)
      notes.push_back(
          fmt::format("{} of {} rows of the metrics ({}) are shown.", shown, count, name));
  };
  add("training", training);
  add("evaluations", evaluations);
  if (const auto* last = training.rows().last()) {
    data.last_step = last->step;
    if (!std::isnan(last->values.back())) data.seconds = last->values.back();
  }
  if (const auto* best = evaluations.rows().best()) data.best_step = best->step;
  return data;
}

}  // namespace attend::app
