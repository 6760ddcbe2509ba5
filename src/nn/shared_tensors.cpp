#include "attend/nn/shared_tensors.h"

#include <algorithm>

namespace attend {

bool SharedKey::operator==(const SharedKey& other) const {
  return name_ == other.name_ && dtype_ == other.dtype_ && device_ == other.device_ &&
         numbers_ == other.numbers_ &&
         std::equal(tensors_.begin(), tensors_.end(), other.tensors_.begin(), other.tensors_.end(),
                    [](const auto& a, const auto& b) { return a.is_same(b); });
}

}  // namespace attend
