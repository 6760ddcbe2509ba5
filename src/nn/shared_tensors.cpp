#include "attend/nn/shared_tensors.h"

#include <algorithm>

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

void SharedTensors::add(const SharedKey& key, std::any value) {
  if (entries_.size() == kMaxEntries) entries_.pop_front();
  entries_.emplace_back(key, std::move(value));
}

}  // namespace attend
