#include "program/sym_operators.h"

#include "attend/input_error.h"
#include "support/throws.h"

#include <limits>

namespace attend::program {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

c10::IValue call(const char* name, std::vector<c10::IValue> numbers) {
  const auto function = find_sym_operator(name, numbers.size());
  EXPECT_NE(function, nullptr) << name;
  return function(numbers);
}

TEST(SymOperators, DivideAsPython) {
  EXPECT_EQ(call("_operator.floordiv", {7, 2}), 3);
  EXPECT_EQ(call("_operator.floordiv", {-7, 2}), -4);
  EXPECT_EQ(call("_operator.floordiv", {7, -2}), -4);
  EXPECT_EQ(call("_operator.mod", {-7, 2}), 1);
  EXPECT_EQ(call("_operator.mod", {7, -2}), -1);
  EXPECT_EQ(call("_operator.truediv", {7, 2}), 3.5);
}

TEST(SymOperators, ComputePowers) {
  EXPECT_EQ(call("_operator.pow", {3, 4}), 81);
  EXPECT_EQ(call("_operator.pow", {-2, 63}), kMin);
  EXPECT_EQ(call("_operator.pow", {2, -1}), 0.5);
  EXPECT_EQ(call("_operator.pow", {0, 0}), 1);
  EXPECT_EQ(call("_operator.pow", {0, kMax}), 0);
  EXPECT_EQ(call("_operator.pow", {1, kMax}), 1);
  EXPECT_EQ(call("_operator.pow", {-1, kMax}), -1);
  EXPECT_EQ(call("_operator.pow", {-1, kMax - 1}), 1);
}

TEST(SymOperators, CompareLargeIntegersExactly) {
  const int64_t large = int64_t{1} << 53;
  EXPECT_EQ(call("_operator.eq", {large, large + 1}), false);
  EXPECT_EQ(call("_operator.lt", {large, large + 1}), true);
  EXPECT_EQ(call("torch.sym_max", {large, large + 1}), large + 1);
  EXPECT_EQ(call("torch.sym_min", {large, large + 1}), large);
  EXPECT_EQ(call("_operator.eq", {2, 2.0}), true);
}

TEST(SymOperators, ComputeBitwise) {
  EXPECT_EQ(call("_operator.and_", {6, 3}), 2);
  EXPECT_EQ(call("_operator.or_", {6, 3}), 7);
  EXPECT_EQ(call("_operator.and_", {true, false}), false);
  EXPECT_EQ(call("torch.sym_not", {false}), true);
}

TEST(SymOperators, RejectOverflowAndDivisionByZero) {
  const auto expect_error = [](const char* name, const std::vector<c10::IValue>& numbers,
                               const char* message) {
    EXPECT_THAT([&] { call(name, numbers); }, throws<InputError>(message)) << name;
  };
  expect_error("_operator.add", {kMax, 1}, "overflows 64 bits");
  expect_error("_operator.sub", {kMin, 1}, "overflows 64 bits");
  expect_error("_operator.mul", {kMax, 2}, "overflows 64 bits");
  expect_error("_operator.neg", {kMin}, "overflows 64 bits");
  expect_error("_operator.pow", {2, 63}, "overflows 64 bits");
  expect_error("_operator.pow", {kMin, 2}, "overflows 64 bits");
  expect_error("_operator.floordiv", {kMin, -1}, "overflows 64 bits");
  expect_error("_operator.floordiv", {1, 0}, "division by zero");
  expect_error("_operator.mod", {1, 0}, "division by zero");
  expect_error("math.trunc", {1e30}, "overflows 64 bits");
}

TEST(SymOperators, AreFoundByNameAndNumberOfArguments) {
  EXPECT_EQ(find_sym_operator("_operator.add", 1), nullptr);
  EXPECT_EQ(find_sym_operator("os.system", 1), nullptr);
}

}  // namespace
}  // namespace attend::program
