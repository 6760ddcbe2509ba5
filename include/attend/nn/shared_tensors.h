#pragma once

#include "attend/api.h"

#include <c10/util/SmallVector.h>
#include <torch/types.h>

#include <any>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

namespace attend {

/// Key of an entry of `SharedTensors`. Layers that pass equal keys get the same value.
class ATTEND_API SharedKey {
 public:
  /// `name`: name of the value, a string literal. `like`: a tensor with the dtype and device that
  /// the value is computed with. `tensors`: tensors that the value is computed from, compared by
  /// identity; all undefined tensors count as the same tensor. `numbers`: options and sizes that
  /// affect the value.
  template <typename... Numbers>
  SharedKey(std::string_view name, const torch::Tensor& like,
            std::initializer_list<torch::Tensor> tensors, Numbers... numbers)
      : name_(name), dtype_(like.scalar_type()), device_(like.device()), tensors_(tensors) {
    (add(static_cast<double>(numbers)), ...);
  }

  /// Adds a number.
  void add(double number) { numbers_.push_back(number); }

  /// Returns the tensors.
  const c10::SmallVector<torch::Tensor, 6>& tensors() const { return tensors_; }

  /// Returns true if names, dtypes, devices, tensors (by identity) and numbers are equal.
  bool operator==(const SharedKey& other) const;

 private:
  std::string_view name_;
  torch::ScalarType dtype_;
  torch::Device device_;
  c10::SmallVector<torch::Tensor, 6> tensors_;  // kept alive, so that addresses stay unique
  c10::SmallVector<double, 40> numbers_;
};

/// Tensors that the layers of a stack share within one forward pass, such as masks, rotary tables
/// and ALiBi biases: the first layer that needs such a tensor computes the tensor; the other layers
/// get the same tensor.
///
/// Each entry has a `SharedKey` and a value. The value must depend only on the key. It must not
/// depend on parameters: with gradient checkpointing, the value is computed without an autograd
/// graph, so the parameters would get no gradient. Not thread-safe; each forward pass has its own
/// instance.
///
///     const SharedKey key("decay", query, {positions}, rate);
///     const auto decay = shared.get(key, [&] { return torch::exp(-rate * positions); });
class ATTEND_API SharedTensors {
 public:
  /// Returns the value of `key`, computed by `compute()` if there is none yet. Values may have any
  /// copyable type; values of equal keys must have the same type.
  template <typename Compute>
  auto get(const SharedKey& key, const Compute& compute) -> std::invoke_result_t<Compute> {
    using Value = std::invoke_result_t<Compute>;
    if (const auto* value = find(key)) return std::any_cast<const Value&>(*value);
    auto value = compute();
    add(key, value);
    return value;
  }

 private:
  /// Maximum number of entries; a further entry replaces the oldest entry. Limits the memory if
  /// layers have no tensors in common.
  static constexpr std::size_t kMaxEntries = 16;

  const std::any* find(const SharedKey& key) const;
  void add(const SharedKey& key, std::any value);
  /// Drops the entries that no layer can request again. The key of such an entry contains a tensor
  /// that is referenced only by keys, e.g. a mask that the hook of one layer has made.
  void drop_unreachable();

  std::deque<std::pair<SharedKey, std::any>> entries_;
};

}  // namespace attend
