#include "export/onnx/rules.h"

#include "export/program/node_arguments.h"
#include "program/target.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace attend::onnx {
namespace {

/// Operators that LibTorch computes in float32 for inputs in float16 and bfloat16, and whose
/// intermediate results may overflow or lose digits in these types. ONNX does not define the
/// precision in which a runtime computes operators such as Softmax. onnxruntime returns infinity
/// for ReduceLogSumExp of some large float16.
constexpr std::array kInFloat32{"_log_softmax.default",
                                "_softmax.default",
                                "addcdiv.default",
                                "addcmul.default",
                                "cdist.default",
                                "celu.default",
                                "cumprod.default",
                                "elu.default",
                                "erfc.default",
                                "expm1.default",
                                "gelu.default",
                                "layer_norm.default",
                                "lerp.Scalar",
                                "lerp.Tensor",
                                "log1p.default",
                                "log_sigmoid.default",
                                "log_softmax.int",
                                "logaddexp.default",
                                "logaddexp2.default",
                                "logit.default",
                                "logsumexp.default",
                                "mean.default",
                                "mean.dim",
                                "mish.default",
                                "pairwise_distance.default",
                                "selu.default",
                                "softmax.int",
                                "softplus.default",
                                "cosine_similarity.default"};

Rule in_float32(const Rule& rule) {
  return [rule](Call& call) {
    call.compute_in_float32();
    rule(call);
  };
}

/// Rules that the user has registered, by target. The rules in a map do not move when others are
/// added.
struct UserRules {
  std::mutex mutex;
  Rules rules;
};

UserRules& user_rules() {
  static UserRules all;
  return all;
}

}  // namespace

bool add_user_rule(const std::string& target, Rule rule) {
  auto& all = user_rules();
  const std::lock_guard lock(all.mutex);
  return all.rules.emplace(target, std::move(rule)).second;
}

const Rules& all_rules() {
  static const Rules all = [] {
    Rules rules;
    add_activation_rules(rules);
    add_arithmetic_rules(rules);
    add_attention_rules(rules);
    add_comparison_rules(rules);
    add_convolution_rules(rules);
    add_fourier_rules(rules);
    add_creation_rules(rules);
    add_diagonal_rules(rules);
    add_distance_rules(rules);
    add_division_rules(rules);
    add_embedding_bag_rules(rules);
    add_min_max_rules(rules);
    add_function_rules(rules);
    add_indexing_rules(rules);
    add_linear_rules(rules);
    add_normalization_rules(rules);
    add_ordering_rules(rules);
    add_padding_rules(rules);
    add_pooling_rules(rules);
    add_random_rules(rules);
    add_recurrent_rules(rules);
    add_reduction_rules(rules);
    add_resizing_rules(rules);
    add_sampling_rules(rules);
    add_scan_rules(rules);
    add_scatter_rules(rules);
    add_shape_rules(rules);
    add_slice_rules(rules);
    add_unfolding_rules(rules);
    add_complex_rules(rules);  // copies some of the rules above
    for (const auto* key : kInFloat32) rules.at(key) = in_float32(rules.at(key));
    return rules;
  }();
  return all;
}

bool has_complex_tensor(const program::Node& node, const program::ExportedProgram& program) {
  const auto is_complex_tensor = [&](const std::string& name) {
    const auto meta = program.tensors.find(name);
    return meta != program.tensors.end() && is_complex(meta->second);
  };
  const auto has_one = [&](const program::Argument& argument) {
    const auto names = program::names_in(argument);
    return std::any_of(names.begin(), names.end(), is_complex_tensor);
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](const auto& input) { return has_one(input.value); }) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), has_one);
}

const Rule* find_rule(const program::Node& node, const program::ExportedProgram& program) {
  {
    auto& all = user_rules();
    const std::lock_guard lock(all.mutex);
    const auto found = all.rules.find(node.target);
    if (found != all.rules.end()) return &found->second;
  }
  auto key = program::key_of(node.target);
  const auto& rules = all_rules();
  if (has_complex_tensor(node, program)) {
    const auto found = rules.find(kComplexPrefix + key);
    return found == rules.end() ? nullptr : &found->second;
  }
  auto found = rules.find(key);
  const auto dot = key.find('.');
  if (found == rules.end() && dot != std::string::npos && dot > 0 && key[dot - 1] == '_') {
    key.erase(dot - 1, 1);
    found = rules.find(key);
  }
  return found == rules.end() ? nullptr : &found->second;
}

}  // namespace attend::onnx
