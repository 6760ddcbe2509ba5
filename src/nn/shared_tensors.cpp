#include "attend/nn/shared_tensors.h"

#include <algorithm>

namespace attend {

bool SharedKey::operator==(const SharedKey& other) const {
  return name_ == other.name_ && dtype_ == other.dtype_ && device_ == other.device_ &&
         numbers_ == other.numbers_ && tensors_ == other.tensors_;
}

bool SharedKey::expired() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const WeakTensor& tensor) {
    return tensor.expired() && tensor._unsafe_get_target() != c10::UndefinedTensorImpl::singleton();
  });
}

}  // namespace attend
