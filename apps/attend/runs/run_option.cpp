#include "runs/run_option.h"

#include "attend/train/device.h"
#include "attend/train/run_directory.h"
#include "options.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

namespace attend::app {
namespace {

constexpr const char* kGroup = "Model";

}  // namespace

void RunOption::add_to(CLI::App& command, const char* name, const char* help) {
  command.add_option(name, directory_, help)->required()->type_name("DIR");
  add_weights_to(command);
}

void RunOption::add_weights_to(CLI::App& command) {
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
  add_number(
      command, "--threads", threads_, kThreads,
      "number of CPU threads; 0 = the number used in training, or LibTorch's default if the run "
      "is not finished",
      "THREADS")
      ->group(kGroup);
}

Pretrained RunOption::load_pretrained(std::optional<torch::ScalarType> dtype) const {
  if (weights_ == train::Weights::last)
    refuse_without_effect("--weights last", "on a published model");
  if (threads_ > 0) train::set_num_threads(threads_);
  auto pretrained = attend::load_pretrained(
      directory_, {.dtype = dtype, .device = train::resolve_device(device_)});
  for (const auto& warning : pretrained.warnings)
    write_error(fmt::format("{}: {}\n", directory_, warning));
  return pretrained;
}

RunOrPretrained RunOption::load_run_or_pretrained(std::optional<torch::ScalarType> dtype) const {
  return read_run_or_pretrained(
      directory_, [&](const auto& path) -> RunOrPretrained { return load(path); },
      [&](const auto&) -> RunOrPretrained { return load_pretrained(dtype); });
}

train::Run RunOption::load(const std::string& path) const {
  const auto device = train::resolve_device(device_);
  const auto directory = train::RunDirectory::open(path);
  const int64_t available = torch::get_num_threads();
  const auto summary = directory.summary();
  const auto trained_with = summary ? summary->threads : 0;
  train::set_num_threads(threads_ > 0 ? threads_ : std::min(trained_with, available));
  auto run = directory.load(weights_);
  module_of(run.model).to(device);
  return run;
}

}  // namespace attend::app
