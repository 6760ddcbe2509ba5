#include "attend/train/evaluation.h"

namespace attend::train {

ExactMatch& ExactMatch::operator+=(const ExactMatch& other) {
  correct += other.correct;
  total += other.total;
  return *this;
}

std::optional<double> ExactMatch::accuracy() const {
  if (total == 0) return std::nullopt;
  return static_cast<double>(correct) / static_cast<double>(total);
}

}  // namespace attend::train
