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
  TORCH_CHECK_VALUE(first != nullptr,
                    "value_residual requires ForwardState::first_values, which TransformerEncoder "
                    "and TransformerDecoder set; found none");
  if (!first->defined()) {
    *first = context.value;
    return;
  }
  TORCH_CHECK_VALUE(first->sizes() == context.value.sizes(),
                    "the values of the first layer must have the shape of this layer's values, ",
                    context.value.sizes(), ", found ", first->sizes());
  // type_as is needed because autocast does not cast the arguments of lerp.
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
