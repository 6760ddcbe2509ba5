#pragma once

#include "attend/api.h"
#include "export/onnx/call.h"

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace attend::onnx {

/// Translation rule of an operator: a function that adds the ONNX nodes for a call of the operator
/// and sets the outputs of the call.
using Rule = std::function<void(Call&)>;

/// Translation rules by operator and overload, such as "add.Tensor". An in-place operator without
/// its own rule, such as add_, uses the rule of the functional operator. Aliases such as subtract
/// have no rules, since PyTorch's tracer records subtract as sub. Likewise, the tracer records all
/// convolutions as _convolution or _convolution_mode.
using Rules = std::map<std::string, Rule>;

/// Operators that change only the shape. The new shape is read from the metadata of the output.
inline constexpr std::array<std::string_view, 8> kReshapings{
    "_unsafe_view.default", "flatten.using_ints", "ravel.default",   "reshape.default",
    "reshape_as.default",   "unflatten.int",      "view_as.default", "view.default"};

/// Prefix of the keys of rules for calls with complex tensors, such as "complex mul.Tensor". Calls
/// whose arguments and results are all real use the rules without this prefix.
inline const std::string kComplexPrefix = "complex ";

ATTEND_API void add_activation_rules(Rules& rules);
ATTEND_API void add_arithmetic_rules(Rules& rules);
ATTEND_API void add_attention_rules(Rules& rules);
ATTEND_API void add_comparison_rules(Rules& rules);
ATTEND_API void add_complex_rules(Rules& rules);
ATTEND_API void add_convolution_rules(Rules& rules);
ATTEND_API void add_creation_rules(Rules& rules);
ATTEND_API void add_diagonal_rules(Rules& rules);
ATTEND_API void add_distance_rules(Rules& rules);
ATTEND_API void add_division_rules(Rules& rules);
ATTEND_API void add_embedding_bag_rules(Rules& rules);
ATTEND_API void add_fourier_rules(Rules& rules);
ATTEND_API void add_min_max_rules(Rules& rules);
ATTEND_API void add_function_rules(Rules& rules);
ATTEND_API void add_indexing_rules(Rules& rules);
ATTEND_API void add_linear_rules(Rules& rules);
ATTEND_API void add_normalization_rules(Rules& rules);
ATTEND_API void add_ordering_rules(Rules& rules);
ATTEND_API void add_padding_rules(Rules& rules);
ATTEND_API void add_pooling_rules(Rules& rules);
ATTEND_API void add_random_rules(Rules& rules);
ATTEND_API void add_recurrent_rules(Rules& rules);
ATTEND_API void add_reduction_rules(Rules& rules);
ATTEND_API void add_resizing_rules(Rules& rules);
ATTEND_API void add_sampling_rules(Rules& rules);
ATTEND_API void add_scan_rules(Rules& rules);
ATTEND_API void add_scatter_rules(Rules& rules);
ATTEND_API void add_shape_rules(Rules& rules);
ATTEND_API void add_slice_rules(Rules& rules);
ATTEND_API void add_unfolding_rules(Rules& rules);

ATTEND_API const Rules& all_rules();

/// Adds a translation rule that replaces those in `all_rules`. `target` is the target of an
/// operator, such as "torch.ops.mylib.clip.default". Returns false if the target has such a rule
/// already.
ATTEND_API bool add_user_rule(const std::string& target, Rule rule);

/// Returns the translation rule of a call of an operator such as "torch.ops.aten.add.Tensor", or
/// nullptr if there is none. If an in-place operator such as add_.Tensor has no rule of its own,
/// returns the rule of the functional operator, add.Tensor. Calls with complex tensors have other
/// rules; in-place operators on complex tensors have none.
ATTEND_API const Rule* find_rule(const program::Node& node,
                                 const program::ExportedProgram& program);

/// Returns true if an argument or result of the call is a complex tensor.
ATTEND_API bool has_complex_tensor(const program::Node& node,
                                   const program::ExportedProgram& program);

}  // namespace attend::onnx
