#include "export/program/number_operators.h"

#include "attend/input_error.h"
#include "support/throws.h"

#include <limits>

namespace attend::program {
namespace {

constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

c10::IValue call(const char* name, std::vector<c10::IValue> numbers) {
  const auto function = find_number_operator(name, numbers.size());
  EXPECT_NE(function, nullptr) << name;
  return function(numbers);
}

TEST(NumberOperators, DivideAsPythonDoes) {
  EXPECT_EQ(call("_operator.floordiv", {7, 2}), 3);
  EXPECT_EQ(call("_operator.floordiv", {-7, 2}), -4);
  EXPECT_EQ(call("_operator.floordiv", {7, -2}), -4);
  EXPECT_EQ(call("_operator.mod", {-7, 2}), 1);
  EXPECT_EQ(call("_operator.mod", {7, -2}), -1);
  EXPECT_EQ(call("_operator.truediv", {7, 2}), 3.5);
}

TEST(NumberOperators, RaiseToPowers) {
  EXPECT_EQ(call("_operator.pow", {3, 4}), 81);
  EXPECT_EQ(call("_operator.pow", {-2, 63}), kLeast);
  EXPECT_EQ(call("_operator.pow", {2, -1}), 0.5);
  EXPECT_EQ(call("_operator.pow", {0, 0}), 1);
  EXPECT_EQ(call("_operator.pow", {0, kGreatest}), 0);
  EXPECT_EQ(call("_operator.pow", {1, kGreatest}), 1);
  EXPECT_EQ(call("_operator.pow", {-1, kGreatest}), -1);
  EXPECT_EQ(call("_operator.pow", {-1, kGreatest - 1}), 1);
}

TEST(NumberOperators, TellWholeNumbersApartThatDoublesDoNot) {
  const int64_t large = int64_t{1} << 53;
  EXPECT_EQ(call("_operator.eq", {large, large + 1}), false);
  EXPECT_EQ(call("_operator.lt", {large, large + 1}), true);
  EXPECT_EQ(call("torch.sym_max", {large, large + 1}), large + 1);
  EXPECT_EQ(call("torch.sym_min", {large, large + 1}), large);
  EXPECT_EQ(call("_operator.eq", {2, 2.0}), true);
}

TEST(NumberOperators, CombineBitByBit) {
  EXPECT_EQ(call("_operator.and_", {6, 3}), 2);
  EXPECT_EQ(call("_operator.or_", {6, 3}), 7);
  EXPECT_EQ(call("_operator.and_", {true, false}), false);
  EXPECT_EQ(call("torch.sym_not", {false}), true);
}

TEST(NumberOperators, RefuseWhatOverflowsOrDividesByZero) {
  const auto refuses = [](const char* name, const std::vector<c10::IValue>& numbers,
                          const char* why) {
    EXPECT_THAT([&] { call(name, numbers); }, throws<InputError>(why)) << name;
  };
  refuses("_operator.add", {kGreatest, 1}, "overflows 64 bits");
  refuses("_operator.sub", {kLeast, 1}, "overflows 64 bits");
  refuses("_operator.mul", {kGreatest, 2}, "overflows 64 bits");
  refuses("_operator.neg", {kLeast}, "overflows 64 bits");
  refuses("_operator.pow", {2, 63}, "overflows 64 bits");
  refuses("_operator.pow", {kLeast, 2}, "overflows 64 bits");
  refuses("_operator.floordiv", {kLeast, -1}, "overflows 64 bits");
  refuses("_operator.floordiv", {1, 0}, "divided by zero");
  refuses("_operator.mod", {1, 0}, "divided by zero");
  refuses("math.trunc", {1e30}, "overflows 64 bits");
}

TEST(NumberOperators, AreFoundByNameAndByHowManyNumbersTheyTake) {
  EXPECT_EQ(find_number_operator("_operator.add", 1), nullptr);
  EXPECT_EQ(find_number_operator("os.system", 1), nullptr);
}

}  // namespace
}  // namespace attend::program
