#pragma once

#include "attend/api.h"
#include "attend/ops/prepared_mask.h"
#include "attend/ops/rotary.h"

#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// The inputs of a value in a `SharedSlot`. Layers that pass equal keys get the same value.
class ATTEND_API SharedKey {
 public:
  /// `name`: name of the value, a string literal. `like`: a tensor with the dtype and device that
  /// the value is computed with. `tensors`: tensors that the value is computed from, compared by
  /// identity; all undefined tensors count as the same tensor. `numbers`: options and sizes that
  /// affect the value.
  template <typename... Numbers>
  SharedKey(std::string_view name, const torch::Tensor& like,
            std::initializer_list<torch::Tensor> tensors, Numbers... numbers)
      : name_(name), dtype_(like.scalar_type()), device_(like.device()) {
    for (const auto& tensor : tensors) tensors_.emplace_back(tensor.getIntrusivePtr());
    (add(static_cast<double>(numbers)), ...);
  }

  /// Adds a number.
  void add(double number) { numbers_.push_back(number); }

  /// Returns true if names, dtypes, devices, tensors (by identity) and numbers are equal.
  bool operator==(const SharedKey& other) const;

  /// Returns true if a tensor no longer exists, so that no other key can be equal to this key.
  bool expired() const;

 private:
  // A weak reference does not keep the tensor alive, but its address stays unique.
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::string_view name_;
  torch::ScalarType dtype_;
  torch::Device device_;
  c10::SmallVector<WeakTensor, 6> tensors_;
  c10::SmallVector<double, 40> numbers_;
};

/// Values of one kind, each with the `SharedKey` of its inputs.
///
/// A value must depend only on its key. It must not depend on parameters: with gradient
/// checkpointing, the value is computed without an autograd graph, so the parameters would get no
/// gradient.
///
///     const SharedKey key("decay", query, {positions}, rate);
///     const auto decay = shared.tensors.get(key, [&] { return torch::exp(-rate * positions); });
template <typename Value>
class SharedSlot {
 public:
  /// Returns the value of `key`, computed by `compute()` if there is none yet.
  template <typename Compute>
  Value get(const SharedKey& key, const Compute& compute) {
    for (const auto& [each, value] : entries_) {
      if (each == key) return value;
    }
    std::erase_if(entries_, [](const auto& entry) { return entry.first.expired(); });
    Value value = compute();  // may call get, too
    if (entries_.size() >= kMaxEntries) entries_.erase(entries_.begin());
    entries_.emplace_back(key, value);
    return value;
  }

 private:
  /// A further entry replaces the oldest entry, which limits the memory if all layers have other
  /// options. A decoder needs a mask for each size of its sliding windows, and one for
  /// cross-attention.
  static constexpr std::size_t kMaxEntries = 16;

  std::vector<std::pair<SharedKey, Value>> entries_;
};

/// The previous key of each key, i.e. the key at the previous position.
struct PreviousKeys {
  torch::Tensor index;  ///< (S) or (B, S): index of the previous key; arbitrary if there is none
  torch::Tensor exist;  ///< bool (B, S) or (S): false = no previous key; undefined = all true
};

/// Tensors that the layers of a stack share within one forward pass: the first layer that needs
/// such a tensor computes the tensor; the other layers get the same tensor. Not thread-safe; each
/// forward pass has its own instance.
struct SharedTensors {
  SharedSlot<PreparedMask> masks;          ///< masks without biases
  SharedSlot<PreparedMask> biased_masks;   ///< sums of masks and biases
  SharedSlot<RotaryTables> rotary;         ///< tables of `Rotary`
  SharedSlot<torch::Tensor> offsets;       ///< biases of `Alibi` and buckets of `RelativeBias`
  SharedSlot<PreviousKeys> previous_keys;  ///< keys of `SmearedKeys`
  SharedSlot<torch::Tensor> tensors;       ///< tensors of other hooks
};

}  // namespace attend
