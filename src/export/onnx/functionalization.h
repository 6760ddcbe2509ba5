#pragma once

#include "export/onnx/call.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace attend::onnx {

/// Functionalization: replaces in-place operators by functional ones, since ONNX values are
/// immutable. Tracks which tensors share memory. After a mutation of a tensor, assigns new ONNX
/// values to this tensor and, where possible, to the tensors that share its memory.
///
/// A mutation of a view is propagated to the view's base if the view is the result of select,
/// slice, chunk, split, unbind or an operator that changes only the shape (view, unsqueeze, ...). A
/// mutation of a result of `contiguous`, `reshape` or `flatten` is propagated only if the base is
/// contiguous at all sizes of the dynamic dimensions, since the result may otherwise be a copy. A
/// mutation of any other view (transpose, permute, expand, diagonal, as_strided) is not propagated.
/// After a mutation that is not propagated, reading the base or another view of the base is not
/// supported. Mutation of an input, parameter or buffer is never supported.
class Functionalization {
 public:
  explicit Functionalization(Translation& translation) : translation_(translation) {}

  /// Throws UnsupportedOperatorError if the node reads a tensor to which a mutation was not
  /// propagated.
  void check_reads(const program::Node& node) const;
  /// Throws UnsupportedOperatorError if a mutation was not propagated to the tensor `name`.
  void check_read(const std::string& name) const;

  /// Records the views that a translated node returns. If the node mutates a tensor, propagates the
  /// mutation, where possible, to the tensors that share its memory. Throws
  /// UnsupportedOperatorError if the mutated tensor is an input, parameter or buffer, or may share
  /// memory with one.
  void record(const program::Node& node);

 private:
  struct View {
    const program::Node* node;
    std::string base;
  };
  using Names = std::vector<std::string>;

  void record_views(const program::Node& node, const std::string& base);
  void record_broadcast(const program::Node& node);
  bool is_copy(const program::Node& node, const std::string& result, const std::string& base) const;
  bool is_propagated(const program::Node& node, const std::string& base) const;
  /// Returns the user input, parameter or buffer among `names`; null if there is none.
  const program::Input* find_input(const std::vector<std::string>& names) const;
  Names group_of(const std::string& name) const;
  void join(const std::string& name, const std::string& base);
  void recompute_views(const Names& group, std::set<std::string>& updated);
  std::set<std::string> propagate_to_base(std::string name);
  bool translate(const program::Node& node);
  bool update_base(const program::Node& view, const std::string& part, const std::string& base);

  Translation& translation_;
  /// Maps tensors to group numbers. Tensors that may share memory have the same group number. A
  /// tensor without a group number shares no memory with other tensors.
  std::map<std::string, std::size_t> groups_;
  std::map<std::string, View> views_;  // views by their names
  /// Maps the output of an in-place operator to the input that the operator mutates.
  std::map<std::string, std::string> aliases_;
  /// Maps a tensor with an outdated value to the operator that mutated its memory.
  std::map<std::string, std::string> stale_;
};

}  // namespace attend::onnx
