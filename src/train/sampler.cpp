#include "attend/train/sampler.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace attend::train {

Sampler::Sampler(uint64_t seed)
    : generator_(torch::make_generator<torch::CPUGeneratorImpl>(seed)),
      order_(torch::empty({0}, torch::kLong)) {}

int64_t Sampler::below(int64_t bound) {
  TORCH_CHECK_VALUE(bound > 0, "bound (", bound, ") must be positive");
  auto* numbers = generator_.get<torch::CPUGeneratorImpl>();
  const auto range = static_cast<uint64_t>(bound);
  // Rejection sampling: `end` is a multiple of `range`, so all remainders of numbers less than
  // `end` are equally likely.
  const auto end = std::numeric_limits<uint64_t>::max() / range * range;
  auto number = numbers->random64();
  while (number >= end) number = numbers->random64();
  return static_cast<int64_t>(number % range);
}

torch::Tensor Sampler::rows(int64_t count, int64_t size) {
  TORCH_CHECK_VALUE(count > 0, "count (", count, ") must be positive");
  TORCH_CHECK_VALUE(order_.numel() == 0 || order_.numel() == count, "count (", count,
                    ") must be the same in all calls, found ", order_.numel(), " in earlier calls");
  std::vector<torch::Tensor> parts;
  while (size > 0) {
    if (next_ == order_.size(0)) {
      order_ = torch::randperm(count, generator_, torch::kLong);
      next_ = 0;
    }
    const int64_t length = std::min(size, order_.size(0) - next_);
    parts.push_back(order_.narrow(0, next_, length));
    next_ += length;
    size -= length;
  }
  return torch::cat(parts);
}

Sampler Sampler::copy() const {
  auto result = *this;  // `order_` is never changed in place
  result.generator_ = generator_.clone();
  return result;
}

std::map<std::string, torch::Tensor> Sampler::state() const {
  return {{"generator", generator_.get_state()},
          {"order", order_.clone()},
          {"next", torch::tensor(next_, torch::kLong)}};
}

void Sampler::load_state(const std::map<std::string, torch::Tensor>& state) {
  const auto find = [&](const std::string& name, torch::ScalarType dtype) {
    const auto entry = state.find(name);
    if (entry == state.end() || entry->second.scalar_type() != dtype) {
      throw InputError(fmt::format("the sampler state has no valid '{}'", name));
    }
    return entry->second;
  };
  const auto generator = find("generator", torch::kByte);
  const auto order = find("order", torch::kLong);
  const auto next = find("next", torch::kLong).item<int64_t>();
  if (order.dim() != 1) throw InputError("the sampler state has no valid 'order'");
  if (next < 0 || next > order.size(0)) {
    throw InputError(
        fmt::format("the sampler state is at row {}, expected 0 to {}", next, order.size(0)));
  }
  generator_.set_state(generator);
  order_ = order.clone();
  next_ = next;
}

}  // namespace attend::train
