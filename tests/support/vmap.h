#pragma once

#include <ATen/functorch/DynamicLayer.h>

namespace attend {

/// While an object exists, the thread is inside vmap over two elements. LibTorch then refuses
/// autograd functions in C++, also those of tensors that are not batched.
struct InVmap {
  InVmap() {
    at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap, 2,
                                           at::functorch::RandomnessType::Different);
  }
  ~InVmap() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  InVmap(const InVmap&) = delete;
  InVmap& operator=(const InVmap&) = delete;
};

}  // namespace attend
