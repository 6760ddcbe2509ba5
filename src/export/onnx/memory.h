#pragma once

#include "export/onnx/call.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace attend::onnx {

/// Follows which tensors share memory, since values of ONNX have none: what is changed in place is
/// another value from then on, and so is all that it is a view of.
///
/// What was changed is put back through select, slice, the parts of chunk, split and unbind, and
/// views that only reshape (view, unsqueeze, flatten, ...). Through others, such as transpose,
/// permute, expand, diagonal and as_strided it is not, nor through `contiguous` and what reshapes
/// where that is a view at some sizes and a copy at others: then a later read of the tensor that
/// they are views of, or of another view of it, is refused. So is a change of a parameter or
/// buffer.
class Memory {
 public:
  explicit Memory(Translation& translation) : translation_(translation) {}

  /// Throws Refusal if the node reads what was changed in a way that could not be followed.
  void check_reads(const program::Node& node) const;
  /// The same for one tensor.
  void check_read(const std::string& name) const;

  /// After the node's results have been given. Throws Refusal for a change of a weight.
  void note(const program::Node& node);

 private:
  struct View {
    const program::Node* node;
    std::string of;
  };
  using Names = std::vector<std::string>;

  void note_views(const program::Node& node, const std::string& of);
  void note_broadcast(const program::Node& node);
  bool is_copy(const program::Node& node, const std::string& result, const std::string& of) const;
  bool is_followed(const program::Node& node, const std::string& of) const;
  bool is_weight(const std::string& name) const;
  Names group_of(const std::string& name) const;
  void join(const std::string& name, const std::string& of);
  void look_again(const Names& group, std::set<std::string>& fresh);
  std::set<std::string> write_through(std::string name);
  bool put_back(const program::Node& view, const std::string& part, const std::string& base);

  Translation& translation_;
  std::map<std::string, std::size_t> groups_;  // of tensors that share memory
  std::map<std::string, View> views_;
  std::map<std::string, std::string> aliases_;  // names since a change in place, of which before
  std::map<std::string, std::string> stale_;    // who changed what they are views of
};

}  // namespace attend::onnx
