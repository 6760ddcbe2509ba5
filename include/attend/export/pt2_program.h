#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attend {

class ZipArchive;

/// How `load_pt2` reads an archive.
struct Pt2LoadOptions {
  /// Where the weights go, and what the program makes for itself.
  torch::Device device = torch::kCPU;
  /// Whose operators a program may call. Those of aten that touch files are refused even so.
  std::set<std::string> namespaces = {"aten"};
};

/// A program of torch.export, read from its .pt2 archive: calls of operators, one after the other,
/// without Python and without code in the file.
///
///     auto program = load_pt2("model.pt2");
///     auto logits = program.forward({tokens}).at(0);  // (B, T, V)
///
/// Copies share weights. `forward` may be called from several threads at once unless the program
/// changes its buffers.
class Pt2Program {
 public:
  /// The outputs for inputs of the shapes that the program takes: None is an undefined tensor, a
  /// number a tensor without dimensions, as is a whole number that the program takes. Other inputs
  /// that are no tensors stay those that it was exported with, and are not given. Throws
  /// InputError, naming input, dimension, what was found and what was expected, for others;
  /// c10::Error if an operator fails. Sizes that the program computes from others, as 2 * s0, are
  /// left to the operators.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs) const;

  /// The names of the inputs, in their order.
  std::vector<std::string> input_names() const;
  /// Parameters and persistent buffers by their names, shared with the program.
  std::map<std::string, torch::Tensor> state_dict() const;

  struct Impl;

 private:
  explicit Pt2Program(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  friend Pt2Program read_pt2(const ZipArchive& zip, const Pt2LoadOptions& options);

  std::shared_ptr<const Impl> impl_;
};

/// Reads an archive written by Python's torch.export.save or by `export_pt2`, of any origin: zip,
/// JSON, weights and names are checked, and loading runs nothing. What runs later are LibTorch's
/// own operators, a few of which trust that sizes fit (recurrent layers on a CPU do): programs of
/// strangers belong in a process of their own. Throws InputError, naming the file and the place in
/// it, for an archive that is not as it should be, for an operator that does not exist or is not
/// allowed, and for what is not supported: control flow, autocast, custom objects, complex
/// constants.
Pt2Program load_pt2(const std::filesystem::path& path, const Pt2LoadOptions& options = {});

}  // namespace attend
