#include "attend/nn/parameter_groups.h"

#include "attend/nn/trained_parameters.h"

namespace attend {

ParameterGroups parameter_groups(const torch::nn::Module& module) {
  ParameterGroups groups;
  for (const auto& parameter : trained_parameters(module)) {
    const bool decays = parameter.role != ParameterRole::undecayed;
    (decays ? groups.decayed : groups.others).push_back(parameter.tensor);
  }
  return groups;
}

}  // namespace attend
