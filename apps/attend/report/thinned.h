#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace attend::app {

/// At most `max` rows of a sequence whose length is not known in advance: all rows if there are at
/// most `max`, otherwise every k-th row for a power k of 2, the row with the lowest loss, and the
/// last row. Keeps no other row in memory.
template <class Row>
class Thinned {
 public:
  /// `max`: at least 3.
  explicit Thinned(std::size_t max) : max_(max) {}

  /// Adds the next row. `loss`: NaN for a row without a loss.
  void add(Row row, double loss = NAN) {
    if (!std::isnan(loss) && (!best_ || loss < lowest_)) {
      lowest_ = loss;
      best_ = {count_, row};
    }
    if (count_ % stride_ == 0) rows_.emplace(count_, row);
    last_ = {count_, std::move(row)};
    ++count_;
    // If rows are left out, the best and the last one may be two more.
    while (rows_.size() > (stride_ == 1 ? max_ : max_ - 2)) {
      stride_ *= 2;
      std::erase_if(rows_, [&](const auto& entry) { return entry.first % stride_ != 0; });
    }
  }

  /// Returns the rows that are kept, in their order.
  std::vector<Row> rows() const {
    auto kept = rows_;
    for (const auto& entry : {best_, last_}) {
      if (entry) kept.insert(*entry);
    }
    std::vector<Row> rows;
    for (auto& [index, row] : kept) rows.push_back(std::move(row));
    return rows;
  }

  /// Returns the number of rows that have been added.
  std::size_t count() const { return count_; }

  /// Returns the first row with the lowest loss; nullptr if no row has a loss.
  const Row* best() const { return best_ ? &best_->second : nullptr; }

  /// Returns the last row; nullptr if there is none.
  const Row* last() const { return last_ ? &last_->second : nullptr; }

 private:
  using Entry = std::pair<std::size_t, Row>;  // index and row

  std::size_t max_;
  std::size_t count_ = 0;
  std::size_t stride_ = 1;
  double lowest_ = 0.0;
  std::map<std::size_t, Row> rows_;
  std::optional<Entry> best_;
  std::optional<Entry> last_;
};

}  // namespace attend::app
