#pragma once

#include "explain/explanation.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// A page for a browser with explanations, which differ in layer and head. The page has at most
/// 10 MB: numbers that the explanations share are contained once, and what has no room is left out.
class ExplanationPage {
 public:
  explicit ExplanationPage(std::string title) : title_(std::move(title)) {}

  /// Adds an explanation. Returns false, and does not add it, if the page has no room for its
  /// matrices of tokens. Of the first explanation, such matrices are left out instead. Weights
  /// without room are always left out.
  bool add(const Explanation& explanation);
  /// Adds a sentence about what the page leaves out.
  void add_note(const std::string& note) { notes_.push_back(note); }

  std::size_t size() const { return explanations_.size(); }  ///< number of explanations

  /// Returns the page. Readers without JavaScript see the tables of the first explanation.
  std::string html() const;

 private:
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
  std::map<std::string, int> left_out_;  // name of a matrix, and in how many explanations
};

}  // namespace attend::app
