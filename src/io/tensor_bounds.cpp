#include "io/tensor_bounds.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend {

int64_t checked_num_elements(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                             int64_t offset, int64_t available) {
  const auto fail = [&](const char* reason) {
    throw InputError(fmt::format(
        "a storage of {} elements cannot contain a tensor of shape ({}), strides ({}) and offset "
        "{}{}",
        available, fmt::join(sizes, ", "), fmt::join(strides, ", "), offset, reason));
  };
  const auto is_negative = [](int64_t number) { return number < 0; };
  if (sizes.size() != strides.size()) fail("; expected as many strides as sizes");
  if (offset < 0) fail("; the offset must be 0 or more");
  if (std::any_of(sizes.begin(), sizes.end(), is_negative) ||
      std::any_of(strides.begin(), strides.end(), is_negative)) {
    fail("; sizes and strides must be 0 or more");
  }
  constexpr int64_t kMaxElementSize = 16;
  int64_t elements = 1;
  int64_t last = offset;  // index of the last element
  int64_t bytes = 0;
  bool overflow = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    int64_t span = 0;
    overflow = overflow || __builtin_mul_overflow(elements, sizes[i], &elements) ||
               __builtin_mul_overflow(std::max<int64_t>(sizes[i], 1) - 1, strides[i], &span) ||
               __builtin_add_overflow(last, span, &last);
  }
  if (overflow || __builtin_mul_overflow(elements, kMaxElementSize, &bytes)) {
    fail("; the size overflows 64 bits");
  }
  if (elements > 0 && last >= available) fail("");
  return elements;
}

}  // namespace attend
