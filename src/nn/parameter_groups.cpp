#include "attend/nn/parameter_groups.h"

#include "attend/nn/trainable_parameters.h"

namespace attend {

ParameterGroups parameter_groups(ConstModuleRef module) {
  ParameterGroups groups;
  for (const auto& parameter : trainable_parameters(module)) {
    const bool decays = parameter.role != ParameterRole::no_decay;
    (decays ? groups.decay : groups.no_decay).push_back(parameter.tensor);
  }
  return groups;
}

}  // namespace attend
