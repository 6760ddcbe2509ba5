#pragma once

#include "attend/io/safetensors_header.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// What a tensor of a model is for.
enum class TensorRole {
  unknown,    ///< its file does not tell
  parameter,  ///< is trained
  frozen,     ///< a parameter that is not trained
  buffer,     ///< belongs to the model and is never trained
};

/// All of a tensor but its numbers.
struct TensorInfo {
  std::string name;  ///< as in the state dict: "decoder.norm.weight"
  std::vector<int64_t> shape = {};
  std::string dtype = {};  ///< as in Python: "float32"
  int64_t elements = 0;    ///< how many numbers it has
  int64_t bytes = 0;       ///< what they take
  TensorRole role = TensorRole::unknown;
  std::string alias_of =
      {};  ///< an earlier tensor whose numbers these are; empty if they are its own
};

/// Sums over tensors. Numbers that go by several names are counted once.
struct TensorTotals {
  int64_t tensors = 0;    ///< names
  int64_t elements = 0;   ///< numbers of all of them
  int64_t trainable = 0;  ///< those of parameters that are trained
  int64_t frozen = 0;     ///< those of parameters that are not
  int64_t buffers = 0;    ///< those of buffers
  int64_t bytes = 0;
};

/// Collects tensors, seeing which of them are the same.
///
///     TensorList list;
///     list.add("weight", tensor, /*is_buffer=*/false);
class TensorList {
 public:
  void add(const std::string& name, const torch::Tensor& tensor, bool is_buffer);
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::pair<const void*, std::vector<int64_t>>, std::string> seen_;
};

/// The parameters and then the buffers of a module, in the order of their registration.
std::vector<TensorInfo> tensors_of(const torch::nn::Module& module);

/// The tensors of a safetensors file, in the order of their bytes.
std::vector<TensorInfo> tensors_of(const SafetensorsHeader& header);

TensorTotals totals_of(const std::vector<TensorInfo>& tensors);

}  // namespace attend
