// Compares the loss scaling of some thousand steps with torch.amp.GradScaler. parity_test.py
// creates the cases and runs the test.
#include "attend/train/grad_scaler.h"
#include "parity/case.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace attend::parity {
namespace {

TEST(GradScalerParity, MatchesNewCases) {
  const char* path = std::getenv("ATTEND_PARITY_CASES");
  if (path == nullptr) {
    GTEST_SKIP() << "ATTEND_PARITY_CASES is not set; run parity_test.py, which "
                    "creates the cases";
  }
  const auto cases = load_cases(path);
  for (const auto& a_case : cases) {
    SCOPED_TRACE("case " + a_case.name);
    const auto loss = a_case.input("loss"), finite = a_case.input("finite");
    const auto& expected = a_case.tensors;
    train::GradScaler scaler;
    for (int64_t step = 0; step < loss.numel(); ++step) {
      ASSERT_TRUE(scaler.scale(loss[step]).equal(expected.at("scaled")[step])) << step;
      const auto gradient = a_case.input("gradient")[step].clone();
      scaler.unscale({gradient});
      ASSERT_TRUE(gradient.allclose(expected.at("unscaled")[step], 0, 0, /*equal_nan=*/true))
          << step;
      const bool is_finite = gradient.isfinite().all().item<bool>();
      ASSERT_EQ(is_finite, finite[step].item<bool>()) << step;
      ASSERT_EQ(is_finite, expected.at("stepped")[step].item<bool>()) << step;
      scaler.update(is_finite);
      ASSERT_EQ(scaler.factor(), expected.at("scale")[step].item<float>()) << step;
    }
  }
  // parity_test.py checks this number, so that no case is silently skipped.
  std::cout << "parity: compared " << cases.size() << " cases" << std::endl;
}

}  // namespace
}  // namespace attend::parity
