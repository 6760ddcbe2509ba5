#pragma once

#include "export/onnx/call.h"

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace attend::onnx {

/// Writes the nodes of ONNX for a call, and gives its results.
using Rule = std::function<void(Call&)>;

/// By operator and overload, as in add.Tensor. Those that change their first argument, as add_, are
/// translated by the rule without the underscore. LibTorch gives a traced operator the first of its
/// names: subtract is sub, and all convolutions are _convolution.
using Rules = std::map<std::string, Rule>;

/// Operators that give the same numbers in another shape, which is known; one rule translates them.
inline constexpr std::array<std::string_view, 8> kReshapings{
    "_unsafe_view.default", "flatten.using_ints", "ravel.default",   "reshape.default",
    "reshape_as.default",   "unflatten.int",      "view_as.default", "view.default"};

void add_activation_rules(Rules& rules);
void add_arithmetic_rules(Rules& rules);
void add_attention_rules(Rules& rules);
void add_comparison_rules(Rules& rules);
void add_convolution_rules(Rules& rules);
void add_creation_rules(Rules& rules);
void add_division_rules(Rules& rules);
void add_extreme_rules(Rules& rules);
void add_function_rules(Rules& rules);
void add_indexing_rules(Rules& rules);
void add_linear_rules(Rules& rules);
void add_normalization_rules(Rules& rules);
void add_ordering_rules(Rules& rules);
void add_padding_rules(Rules& rules);
void add_pooling_rules(Rules& rules);
void add_recurrent_rules(Rules& rules);
void add_reduction_rules(Rules& rules);
void add_resizing_rules(Rules& rules);
void add_scatter_rules(Rules& rules);
void add_shape_rules(Rules& rules);
void add_slice_rules(Rules& rules);

const Rules& all_rules();

/// As add.Tensor, of torch.ops.aten.add.Tensor; empty for another namespace.
std::string key_of(const std::string& target);

/// The rule for a target: that of add.Tensor for add_.Tensor too. Null if there is none.
const Rule* find_rule(const std::string& target);

}  // namespace attend::onnx
