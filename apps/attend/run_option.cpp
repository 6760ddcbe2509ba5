#include "run_option.h"

#include "attend/train/device.h"
#include "choice.h"
#include "number_option.h"

namespace attend::app {
namespace {

constexpr const char* kGroup = "Model";

}  // namespace

void RunOption::add_to(CLI::App& command) {
  command.add_option("run", directory_, "run directory")->required()->type_name("DIR");
  const auto set = [this](const std::string& text) {
    weights_ = parse_choice<train::Weights>("--weights", text);
  };
  command
      .add_option_function<std::string>(
          "--weights", set, "weights to load: best = lowest val loss, last = latest checkpoint")
      ->type_name(choices<train::Weights>())
      ->default_str(std::string(to_string(weights_)))
      ->group(kGroup);
}

void RunOption::add_device_to(CLI::App& command, const std::string& device) {
  device_ = device;
  command
      .add_option("--device", device_, "device: cpu, cuda, cuda:N, or auto = a GPU if there is one")
      ->type_name("DEVICE")
      ->default_str(device_)
      ->group(kGroup);
  add_number(command, "--threads", threads_, kThreads,
             "number of CPU threads; 0 = LibTorch's default", "THREADS")
      ->group(kGroup);
}

train::Run RunOption::load() const {
  train::set_num_threads(threads_);
  const auto device = train::resolve_device(device_);
  auto run = train::RunDirectory(directory_).load(weights_);
  train::module_of(run.model).to(device);
  return run;
}

}  // namespace attend::app
