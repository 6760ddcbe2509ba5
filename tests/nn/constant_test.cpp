#include "attend/nn/constant.h"

#include "support/close.h"
#include "support/trace.h"

namespace attend {
namespace {

TEST(Constant, TypeAsHasTheDtypeOfTheArgument) {
  Constant constant({1.0, 1.0 / 3.0});
  const auto exact = torch::tensor({1.0, 1.0 / 3.0}, torch::kDouble);
  for (const auto dtype : {torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    const auto numbers = constant.type_as(torch::zeros({3}, dtype));
    EXPECT_EQ(numbers.scalar_type(), dtype);
    EXPECT_TRUE(close(numbers, exact.to(dtype), 0.0)) << dtype;
  }
}

TEST(Constant, TypeAsHasTheDeviceOfTheArgument) {
  Constant constant({1.0, 2.0});
  const auto elsewhere = torch::zeros({3}, torch::kMeta);
  EXPECT_TRUE(constant.type_as(elsewhere).is_meta());
  EXPECT_TRUE(constant.type_as(elsewhere).is_same(constant.type_as(elsewhere)))
      << "the constant was copied again";
  EXPECT_EQ(constant.type_as(elsewhere.to(torch::kHalf)).scalar_type(), torch::kHalf);
  EXPECT_TRUE(constant.type_as(torch::zeros({1})).is_cpu());
}

TEST(Constant, TraceFollowsDtypeAndDeviceOfTheInput) {
  Constant constant({1.0, 1.0 / 3.0});
  const auto run = [&](const Tensors& x) { return constant.type_as(x[0]); };
  const auto traced = trace(run, {torch::zeros({2})});
  const auto input = torch::zeros({5}, torch::kDouble);
  EXPECT_TRUE(close(traced({input}), run({input}), 0.0));
  EXPECT_TRUE(traced({torch::zeros({5}, torch::kMeta)}).is_meta());
}

}  // namespace
}  // namespace attend
