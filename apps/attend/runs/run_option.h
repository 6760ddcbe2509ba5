#pragma once

#include "attend/input_error.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/run_directory.h"

#include <CLI/App.hpp>

#include <optional>
#include <string>
#include <variant>

namespace attend::app {

/// Help of an argument that is a run or a published model.
inline constexpr const char* kRunOrPretrained =
    "run directory, or folder of a published model with config.json";

/// Decides whether `directory` is a published model or a run: returns `read_pretrained(directory)`
/// or `read_run(directory)`. If it is neither, `read_run` throws, and the message also says what a
/// published model has.
template <typename ReadRun, typename ReadPretrained>
auto read_run_or_pretrained(const std::string& directory, const ReadRun& read_run,
                            const ReadPretrained& read_pretrained) {
  if (is_pretrained(directory)) return read_pretrained(directory);
  if (train::RunDirectory::exists(directory)) return read_run(directory);
  try {
    return read_run(directory);
  } catch (const InputError& error) {
    throw InputError(std::string(error.what()) +
                     "; not a published model either: it has no config.json");
  }
}

/// A model of an argument with the help `kRunOrPretrained`.
using RunOrPretrained = std::variant<train::Run, Pretrained>;

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
  /// Does the same for a command that also accepts a published model. `dtype`: that of a published
  /// model, see `PretrainedOptions`. Also throws InputError in the same cases as
  /// `attend::load_pretrained`.
  RunOrPretrained load_run_or_pretrained(
      std::optional<torch::ScalarType> dtype = std::nullopt) const;

 private:
  Pretrained load_pretrained(std::optional<torch::ScalarType> dtype) const;

  std::string directory_;
  train::Weights weights_ = train::Weights::best;
  std::string device_ = "cpu";
  int64_t threads_ = 0;
};

}  // namespace attend::app
