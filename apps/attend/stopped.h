#pragma once

#include <exception>

namespace attend::app {

/// A signal asked to stop, and all is saved: the exit status is 128 and its number.
class Stopped : public std::exception {
 public:
  explicit Stopped(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "stopped by a signal"; }

 private:
  int signal_;
};

}  // namespace attend::app
