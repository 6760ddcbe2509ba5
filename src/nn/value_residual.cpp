#include "attend/nn/value_residual.h"

namespace attend {

ValueResidualImpl::ValueResidualImpl() {
  reset();
}

void ValueResidualImpl::reset() {
  mix = register_parameter("mix", torch::full({}, 0.5));
}

void ValueResidualImpl::after_projection(AttentionContext& context) {
  auto* first = context.state.first_values;
  TORCH_CHECK_VALUE(
      first != nullptr,
      "value_residual works in a stack of layers that does not gradient_checkpointing, whose "
      "ForwardState::first_values is set; found none");
  if (!first->defined()) {
    *first = context.value;
    return;
  }
  TORCH_CHECK_VALUE(first->sizes() == context.value.sizes(), "the first layer's values ",
                    first->sizes(), " must have the shape of this layer's ", context.value.sizes());
  // Of one dtype, under autocast too.
  context.value = torch::lerp(context.value, *first, mix.type_as(context.value));
}

void ValueResidualImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::ValueResidual()";
}

AttentionHookFactory value_residual() {
  return {"value_residual",
          [](const AttentionDims&) { return std::make_shared<ValueResidualImpl>(); }};
}

}  // namespace attend
