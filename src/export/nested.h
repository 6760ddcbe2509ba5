#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

namespace attend {

/// A tensor or None in a nested value.
struct TreeLeaf {
  std::string path;  ///< keys and indices, such as "states.0"; "" if the value is not nested
  bool is_none = false;
};

/// Returns the tensors and Nones of a nested value, in order.
ATTEND_API std::vector<TreeLeaf> leaves_of(const TreeSpec& spec);

/// Returns the name of a tensor in an argument, see `with_arguments`.
ATTEND_API std::string flat_name(const std::string& argument, const std::string& path);

/// Returns the name that each output has in an ONNX file: `names`, extended by the paths of the
/// other outputs.
ATTEND_API std::vector<std::string> output_names_of(const TreeSpec& spec,
                                                    std::vector<std::string> names);

/// Returns the arguments with the structures in `arguments` whose tensors are `tensors`. If
/// `arguments` is empty, returns the tensors. Lists and dictionaries have the types that
/// `nest_graph` gives them or, if `as_any` is set, elements of the type Any.
ATTEND_API std::vector<c10::IValue> nest(const std::vector<ForwardArgument>& arguments,
                                         const std::vector<torch::Tensor>& tensors,
                                         bool as_any = false);

/// Returns the tensors in a value that a method returned.
ATTEND_API std::vector<torch::Tensor> flatten(const c10::IValue& value);

/// Replaces the inputs of a traced method by `arguments`, unless these are empty, and its output by
/// one with the structure `outputs`. Throws c10::ValueError if the elements of a list or dictionary
/// have different types.
ATTEND_API void nest_graph(torch::jit::Graph& graph, const std::vector<ForwardArgument>& arguments,
                           const TreeSpec& outputs);

}  // namespace attend
