#pragma once

#include <exception>

namespace attend::app {

/// Thrown by a command that a signal stopped. The exit status is then 128 plus the signal number.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "interrupted by a signal"; }

 private:
  int signal_;
};

}  // namespace attend::app
