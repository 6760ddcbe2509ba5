#include "attend/nn/parameter_count.h"

#include "attend/nn/freezing.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

TEST(ParameterCount, CountsTrainedAndFrozenParameters) {
  const torch::nn::Linear linear(2, 3);
  EXPECT_EQ(parameter_count(*linear), 3 * 2 + 3);
  freeze(*linear);
  EXPECT_EQ(parameter_count(*linear), 3 * 2 + 3);
}

TEST(ParameterCount, CountsSharedParametersOnce) {
  const torch::nn::Linear linear(2, 3);
  torch::nn::Module module;
  module.register_module("first", linear);
  module.register_module("again", linear);
  module.register_parameter("tied", linear->weight);
  module.register_parameter("equal", linear->weight.detach().clone());
  EXPECT_EQ(parameter_count(module), (3 * 2 + 3) + 3 * 2);
}

}  // namespace
}  // namespace attend
