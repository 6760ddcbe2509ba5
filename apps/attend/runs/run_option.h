#pragma once

#include "attend/input_error.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/run_directory.h"

#include <CLI/App.hpp>

#include <optional>
#include <string>

namespace attend::app {

/// Help of an argument that is a run or a published model.
inline constexpr const char* kRunOrPretrained =
    "run directory, or folder of a published model with config.json";

/// Returns `load()`, which loads the run in `directory`, of a command that also accepts a published
/// model. If there is neither, the message also says what a published model has.
template <typename Load>
auto load_as_run(const std::string& directory, const Load& load) {
  if (train::RunDirectory::exists(directory)) return load();
  try {
    return load();
  } catch (const InputError& error) {
    throw InputError(std::string(error.what()) +
                     "; not a published model either: it has no config.json");
  }
}

/// Options for a trained run: directory, weights, device and threads.
class RunOption {
 public:
  /// Adds the argument `name` and the option --weights. Parsing `command` writes their values to
  /// *this, so *this must not be moved or destroyed before `command` is parsed.
  void add_to(CLI::App& command, const char* name = "run", const char* help = "run directory");
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
  /// As `load`, for a command that also accepts a published model, see `load_as_run`.
  train::Run load_if_not_pretrained() const {
    return load_as_run(directory_, [this] { return load(); });
  }
  /// Sets LibTorch's number of CPU threads, and loads a published model to the device. `dtype`: see
  /// `PretrainedOptions`. Throws
  /// InputError in the same cases as `attend::load_pretrained`.
  Pretrained load_pretrained(std::optional<torch::ScalarType> dtype = std::nullopt) const;

 private:
  std::string directory_;
  train::Weights weights_ = train::Weights::best;
  std::string device_ = "cpu";
  int64_t threads_ = 0;
};

}  // namespace attend::app
