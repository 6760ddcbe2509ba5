#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace attend::app {

/// Returns the rows of a matrix as a JSON array. The numbers of a float tensor have as many digits
/// as a float needs.
nlohmann::ordered_json json_rows(const torch::Tensor& matrix);

/// Returns all steps as a JSON object, as apps/page/README.md describes it.
nlohmann::ordered_json to_json(const Explanation& explanation);

/// Explanations as a JSON object of limited size: labels and numbers that occur more than once are
/// contained once, large matrices are base64, and numbers without room are left out. Small matrices
/// come before large ones, and large weights of all explanations but the first one come last.
class PackedExplanations {
 public:
  /// `max_bytes`: of the object in a page.
  explicit PackedExplanations(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Adds an explanation, unless it is not the first one and has no room even without numbers.
  /// Returns true if there was room for all its matrices of tokens.
  bool add(const Explanation& explanation);

  std::size_t size() const { return explanations_.size(); }  ///< number of explanations

  /// Returns the object, with the keys `explanations`, `labels` and `numbers` of
  /// apps/page/README.md.
  nlohmann::ordered_json json();
  /// Returns a sentence about the numbers that `json` leaves out; an empty text if there are none.
  std::string note() const;

 private:
  /// The numbers of a matrix of an explanation.
  struct Numbers {
    std::size_t explanation;
    std::size_t step;
    std::size_t matrix;
    torch::Tensor values;
  };
  void add_numbers(std::vector<Numbers> all);
  /// Returns the index of labels in `labels_`, to which new labels are added.
  std::size_t place_of(const std::vector<std::string>& labels);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  bool has_room_ = true;  // for matrices of tokens
  nlohmann::ordered_json explanations_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json labels_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json numbers_ = nlohmann::ordered_json::array();
  std::map<std::vector<std::string>, std::size_t> label_places_;
  // By rows, columns and hash; null = no room.
  std::map<std::tuple<int64_t, int64_t, std::size_t>, nlohmann::ordered_json> number_places_;
  std::vector<Numbers> large_weights_;  // that `json` adds
  std::set<std::string> left_out_;      // names of matrices
};

}  // namespace attend::app
