#pragma once

#include "attend/train/run_directory.h"

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// Options for a trained run: directory, weights, device and threads.
class RunOption {
 public:
  /// Adds the argument `run` and the option --weights. Parsing `command` writes their values to
  /// *this, so *this must not be moved or destroyed before `command` is parsed.
  void add_to(CLI::App& command);
  /// Adds the option --weights to a command that names its run in another way. Parsing writes to
  /// *this, as for `add_to`.
  void add_weights_to(CLI::App& command);
  /// Adds --device, with `device` as the default, and --threads. Parsing writes to *this, as for
  /// `add_to`. If this function is not called, `load` uses the CPU.
  void add_device_to(CLI::App& command, const std::string& device = "auto");

  const std::string& directory() const { return directory_; }

  /// Sets LibTorch's number of CPU threads, loads the run, and moves its model to the device.
  /// Throws InputError in the same cases as `RunDirectory::load`, and for an unavailable device.
  train::Run load() const { return load(directory_); }
  /// Does the same for the run in `directory`.
  train::Run load(const std::string& directory) const;

 private:
  std::string directory_;
  train::Weights weights_ = train::Weights::best;
  std::string device_ = "cpu";
  int64_t threads_ = 0;
};

}  // namespace attend::app
