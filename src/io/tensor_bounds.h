#pragma once

#include "attend/api.h"

#include <cstdint>
#include <vector>

namespace attend {

/// Returns the number of elements of a tensor with the given sizes, strides and storage offset, in
/// a storage of `available` elements. Throws InputError if an element is outside of the storage, if
/// a size, stride or offset is invalid, or if the number of bytes would overflow 64 bits with
/// elements of 16 bytes, the largest element size.
ATTEND_API int64_t checked_num_elements(const std::vector<int64_t>& sizes,
                                        const std::vector<int64_t>& strides, int64_t offset,
                                        int64_t available);

}  // namespace attend
