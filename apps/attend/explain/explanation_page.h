#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// A page for a browser with explanations, which differ in layer and head. The page has at most
/// 10 MB: numbers that the explanations share are contained once, and what has no room is left out.
/// The large weights of all explanations but the first one come last, small ones before large ones.
class ExplanationPage {
 public:
  explicit ExplanationPage(std::string title) : title_(std::move(title)) {}

  /// Adds an explanation. Returns false, and does not add it, if the page has no room for its
  /// matrices of tokens. Of the first explanation, such matrices are left out instead. Large
  /// weights without room are always left out.
  bool add(const Explanation& explanation);
  /// Adds a sentence about what the page leaves out.
  void add_note(const std::string& note) { notes_.push_back(note); }

  std::size_t size() const { return explanations_.size(); }  ///< number of explanations

  /// Returns the page. Readers without JavaScript see the tables of the first explanation.
  std::string html();

 private:
  /// A matrix of an explanation that is added if there is room at the end.
  struct Pending {
    std::size_t explanation;
    std::size_t step;
    std::size_t matrix;
    torch::Tensor values;
  };
  /// Adds the pending matrices that have room.
  void add_pending();
  /// Returns the index of numbers in `numbers_`, to which new numbers are added.
  std::size_t place_of(const std::string& numbers);
  /// Returns the index of labels in `labels_`, to which new labels are added.
  std::size_t index_of(const std::vector<std::string>& labels);

  std::string title_;
  std::string content_;  // HTML, of the first explanation
  std::size_t bytes_ = 0;
  nlohmann::ordered_json explanations_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json labels_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json numbers_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json notes_ = nlohmann::ordered_json::array();
  std::map<std::vector<std::string>, std::size_t> label_indices_;
  std::map<std::string, std::size_t> number_indices_;  // by text
  std::vector<Pending> pending_;
  std::set<std::string> left_out_;  // names of matrices
};

}  // namespace attend::app
