#include "io/tensor_bounds.h"

#include "attend/input_error.h"
#include "support/throws.h"

namespace attend {
namespace {

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(TensorBounds, ReturnsTheNumberOfElements) {
  EXPECT_EQ(checked_num_elements({2, 3}, {3, 1}, 0, 6), 6);
  EXPECT_EQ(checked_num_elements({2, 3}, {0, 1}, 4, 7), 6);
  EXPECT_EQ(checked_num_elements({}, {}, 5, 6), 1);
  EXPECT_EQ(checked_num_elements({0, 3}, {3, 1}, 0, 0), 0);
}

TEST(TensorBounds, InvalidTensorsThrow) {
  const auto error = [](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                        int64_t offset, const char* text) {
    EXPECT_THAT([&] { checked_num_elements(sizes, strides, offset, 6); }, throws<InputError>(text));
  };
  error({2, 3}, {3, 1}, 1,
        "a storage of 6 elements cannot contain a tensor of shape (2, 3), strides (3, 1)");
  error({2}, {kHuge}, 0, "cannot contain a tensor");
  error({2, 3}, {3}, 0, "as many strides as sizes");
  error({2}, {1}, -1, "the offset must be 0 or more");
  error({-2}, {1}, 0, "sizes and strides must be 0 or more");
  error({kHuge, kHuge, 0}, {1, 1, 1}, 0, "overflows");
  error({3}, {kHuge}, 0, "overflows");
}

}  // namespace
}  // namespace attend
