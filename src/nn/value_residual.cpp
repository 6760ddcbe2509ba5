#include "attend/nn/value_residual.h"

namespace attend {

ValueResidualImpl::ValueResidualImpl() {
  reset();
}

void ValueResidualImpl::reset() {
  mix = register_parameter("mix", torch::full({}, 0.5));
}

void ValueResidualImpl::on_heads(Heads& heads) {
  auto* first = heads.state.first_values;
  TORCH_CHECK_VALUE(first != nullptr,
                    "value_residual works in a stack of layers that does not recompute, whose "
                    "LayerState::first_values is set; found none");
  if (!first->defined()) {
    *first = heads.value;
    return;
  }
  TORCH_CHECK_VALUE(first->sizes() == heads.value.sizes(), "the first layer's values ",
                    first->sizes(), " must have the shape of this layer's ", heads.value.sizes());
  // Of one dtype, under autocast too.
  heads.value = torch::lerp(heads.value, *first, mix.type_as(heads.value));
}

void ValueResidualImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::ValueResidual()";
}

AttentionPartFactory value_residual() {
  return {"value_residual", [](const HeadShape&) { return std::make_shared<ValueResidualImpl>(); }};
}

}  // namespace attend
