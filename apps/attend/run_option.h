#pragma once

#include "attend/train/run_directory.h"

#include <CLI/App.hpp>

#include <string>

namespace attend::app {

/// The trained run that a command uses: which one, which of its weights, and what they run on.
class RunOption {
 public:
  /// Adds the argument `run` and --weights to a command; this must live until it has run.
  void add_to(CLI::App& command);
  /// Adds --device, which is `device` if it is not given, and --threads; without them the model
  /// stays on the CPU.
  void add_device_to(CLI::App& command, const std::string& device = "auto");

  const std::string& directory() const { return directory_; }

  /// The run as it is asked for, its model on the device. Throws InputError as
  /// `RunDirectory::load`, and if there is no such device.
  train::Run load() const;

 private:
  std::string directory_;
  train::Weights weights_ = train::Weights::best;
  std::string device_ = "cpu";
  int64_t threads_ = 0;
};

}  // namespace attend::app
