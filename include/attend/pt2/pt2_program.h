#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attend {

/// Options of `load_pt2`.
struct Pt2LoadOptions {
  /// Device of the weights and of the tensors that the program creates.
  torch::Device device = torch::kCPU;
  /// Name of the program, if the archive contains several: `NAME` for models/NAME.json. By default,
  /// the only program or, of several, "model", which torch.export.load loads.
  std::string model = {};
  /// Namespaces of custom operators that the program may call, e.g. "my_library". "aten" allows all
  /// ATen operators except those that access files. Allow "aten" only for archives from a trusted
  /// source.
  std::set<std::string> namespaces = {};
  /// ATen operators that the program may call although they are not allowed by default, e.g.
  /// "aten::ctc_loss". If the program calls an operator that is not allowed, the error message
  /// names the operator.
  std::set<std::string> operators = {};
};

/// An exported program of torch.export, loaded from a .pt2 archive: a sequence of operator calls
/// that runs without Python.
///
///     auto program = load_pt2("model.pt2");
///     auto logits = program.forward({tokens}).at(0);  // (B, T, V)
///
/// A copy shares its weights with the original. `forward` is thread-safe unless the program mutates
/// buffers.
class ATTEND_API Pt2Program {
 public:
  /// Runs the program and returns its outputs. An input that is a dynamic int (SymInt) in Python is
  /// passed as a 0-dimensional int64 tensor. Other inputs that are not tensors are constants of the
  /// program and must not be passed. An output that is a number in Python is returned as a
  /// 0-dimensional tensor. An output that is None is returned as an undefined tensor. Throws
  /// InputError if the number of inputs, a dtype, a device or a shape does not match. The message
  /// names the input, the value found, the value expected and, for a wrong size, the dimension. A
  /// size that is computed from other sizes, such as twice the batch size, is not checked. Throws
  /// c10::Error if an operator fails.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& inputs) const;

  /// Runs the program with inputs by name, and returns its outputs by name. Also throws InputError
  /// if an input is missing or unknown, or if two outputs have the same name.
  ///
  ///     load_pt2("model.pt2").forward_named({{"batch_tokens", tokens}}).at("logits");
  std::map<std::string, torch::Tensor> forward_named(
      const std::map<std::string, torch::Tensor>& inputs) const;

  /// Returns the names of the inputs, in order: as in the graph signature of torch.export, where
  /// the element "tokens" of a dictionary "batch" has the name "batch_tokens", and the first
  /// element of a list "states" has the name "states_0".
  std::vector<std::string> input_names() const;
  /// Returns the names of the outputs, in order: the keys, fields and indices in the value that
  /// Python's `forward` returns, such as "logits", "states.0" for the first element of a tuple
  /// "states", or "output" if `forward` returns a single value.
  std::vector<std::string> output_names() const;
  /// Returns the parameters and persistent buffers by name. The returned tensors share memory with
  /// the program.
  std::map<std::string, torch::Tensor> state_dict() const;

  struct Impl;  ///< private

 private:
  explicit Pt2Program(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  friend Pt2Program load_pt2(const std::filesystem::path& path, const Pt2LoadOptions& options);

  std::shared_ptr<const Impl> impl_;
};

/// Loads an archive written by `export_pt2` or Python's `torch.export.save`. Archives of any origin
/// are safe to load: zip, JSON, weights and names are validated, and loading runs no code. The
/// program may call the operators that LibTorch tags as core or pointwise, and further ATen
/// operators that exported programs need, such as linear and lstm, and the higher-order operators
/// cond, while_loop, scan and map. A while_loop may never end. The program may not call operators
/// that access files, or that replace or resize the memory of a tensor (`set_`, `resize_`).
/// `options` can allow more operators. The operators of recurrent layers, such as lstm, do not
/// check sizes on the CPU. Therefore, run untrusted programs in a separate process. Throws
/// InputError if the archive is invalid, if an operator does not exist or is not allowed, and for
/// unsupported features: other higher-order operators, custom objects and complex constants. The
/// message names the file and the position in the file.
///
///     auto program = load_pt2("model.pt2", {.device = torch::kCUDA});
ATTEND_API Pt2Program load_pt2(const std::filesystem::path& path,
                               const Pt2LoadOptions& options = {});

}  // namespace attend
