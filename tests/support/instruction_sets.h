#pragma once

#include "support/seed.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cctype>
#include <string>

namespace attend {

/// Fixture of tests of kernels that are compiled for several instruction sets. The parameter is an
/// instruction set, which the fixture sets.
struct InstructionSetTest : FixedSeed, testing::TestWithParam<int64_t> {
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this processor";
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::string instruction_set_name(const testing::TestParamInfo<int64_t>& target) {
  std::string name = hwy::TargetName(target.param);
  std::erase_if(name, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return name;
}

}  // namespace attend
