// Computes the results of attend for the cases of scaled_dot_product_attention and
// MultiheadAttention.
#include "parity/case.h"
#include "parity/module_inputs.h"

#include <optional>

namespace attend::parity {
namespace {

/// Returns `x` in the memory layout `layout`: a copy with other strides, or `x` itself if `layout`
/// is "contiguous".
torch::Tensor with_layout(const torch::Tensor& x, const std::string& layout) {
  if (layout == "heads_inside") return x.transpose(-3, -2).contiguous().transpose(-3, -2);
  if (layout == "width_outside") return x.transpose(-2, -1).contiguous().transpose(-2, -1);
  return x;
}

}  // namespace

Computed run_sdpa(const Case& a_case) {
  const auto layout = a_case.get<std::string>("layout");
  const auto scale = a_case.options.at("scale");
  auto mask = a_case.input("mask");
  // If the query is (B, H, T, D), PyTorch interprets a mask with three dimensions as (H, T, S).
  if (mask.defined() && mask.dim() == 3 && a_case.input("query").dim() == 4) {
    mask = mask.unsqueeze(0);
  }
  const auto output = dot_product_attention(
      with_layout(a_case.input("query"), layout), with_layout(a_case.input("key"), layout),
      with_layout(a_case.input("value"), layout),
      {.mask = mask,  // as in PyTorch's function, true = may attend
       .causal = a_case.is("causal"),
       .need_weights = a_case.is("need_weights")},
      {.scale = scale.is_null() ? std::nullopt : std::optional(scale.get<double>())});
  return {.outputs = {{"output", output.output}}};
}

Computed run_mha(const Case& a_case) {
  MultiheadAttention attention(
      MultiheadAttentionOptions(a_case.get<int64_t>("width"), a_case.get<int64_t>("heads"))
          .kdim(a_case.get<int64_t>("key_width"))
          .vdim(a_case.get<int64_t>("value_width"))
          .bias(a_case.is("bias")));
  copy_parameters(a_case, *attention);

  auto args = module_args(a_case, "");
  args.need_weights = a_case.is("need_weights");
  args.average_attn_weights = a_case.is("average_attn_weights");
  const auto inputs = a_case.get<std::string>("inputs");
  const auto query = module_input(a_case, "query");
  AttentionOutput result;
  if (inputs == "self") {
    result = attention->forward(query, args);
  } else {
    const auto key = module_input(a_case, "key");
    result =
        attention->cross(query, key, inputs == "three" ? module_input(a_case, "value") : key, args);
  }
  Computed computed{{{"output", module_output(a_case, result.output)}}, attention.ptr()};
  if (args.need_weights) computed.outputs["weights"] = result.weights;
  return computed;
}

}  // namespace attend::parity
