#pragma once

#include "export/program/program.h"

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace attend::program {

/// A program whose names are places of a list and whose targets are operators of the dispatcher:
/// what can be found out before it runs is found out, and what cannot run is refused.
class Runner {
 public:
  /// `weights`: for the names of all inputs that are no user's. Operators of other `namespaces` are
  /// refused. Throws InputError, naming the node.
  Runner(const Program& program, const std::map<std::string, torch::Tensor>& weights,
         torch::Device device, const std::set<std::string>& namespaces);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Hears each tensor as a name gets it.
  using Recorder = std::function<void(const std::string& name, const torch::Tensor& tensor)>;

  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs,
                                 const Recorder& recorder = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::program
