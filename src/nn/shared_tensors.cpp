#include "attend/nn/shared_tensors.h"

#include <algorithm>
#include <vector>

namespace attend {

bool SharedKey::operator==(const SharedKey& other) const {
  return name_ == other.name_ && dtype_ == other.dtype_ && device_ == other.device_ &&
         numbers_ == other.numbers_ &&
         std::equal(tensors_.begin(), tensors_.end(), other.tensors_.begin(), other.tensors_.end(),
                    [](const auto& a, const auto& b) { return a.is_same(b); });
}

const std::any* SharedTensors::find(const SharedKey& key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == entries_.end() ? nullptr : &found->second;
}

void SharedTensors::drop_unreachable() {
  const auto uses_in_keys = [&](const torch::Tensor& tensor) {
    std::size_t count = 0;
    for (const auto& [key, value] : entries_) {
      count += static_cast<std::size_t>(
          std::count_if(key.tensors().begin(), key.tensors().end(),
                        [&](const auto& each) { return each.is_same(tensor); }));
    }
    return count;
  };
  // All entries are checked before any is dropped, because dropping an entry changes the counts.
  std::vector<bool> unreachable;
  for (const auto& [key, value] : entries_) {
    unreachable.push_back(
        std::any_of(key.tensors().begin(), key.tensors().end(), [&](const auto& tensor) {
          return tensor.defined() && tensor.use_count() == uses_in_keys(tensor);
        }));
  }
  std::size_t i = 0;
  std::erase_if(entries_, [&](const auto&) { return unreachable[i++]; });
}

void SharedTensors::add(const SharedKey& key, std::any value) {
  drop_unreachable();
  if (entries_.size() == kMaxEntries) entries_.pop_front();
  entries_.emplace_back(key, std::move(value));
}

}  // namespace attend
