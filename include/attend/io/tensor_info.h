#pragma once

#include "attend/api.h"
#include "attend/io/safetensors_header.h"
#include "attend/module_ref.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Role of a tensor in a model.
enum class TensorRole {
  unknown,    ///< not recorded in the file
  parameter,  ///< trainable parameter
  frozen,     ///< parameter with requires_grad = false
  buffer,     ///< registered buffer
};

/// Metadata of a tensor.
struct TensorInfo {
  std::string name;                       ///< as in the state dict: "decoder.norm.weight"
  std::vector<int64_t> shape = {};        ///< sizes
  std::string dtype = {};                 ///< as in Python: "float32"
  int64_t elements = 0;                   ///< number of elements
  int64_t bytes = 0;                      ///< size in bytes
  TensorRole role = TensorRole::unknown;  ///< parameter, frozen, buffer or unknown
  std::string alias_of = {};              ///< name of an earlier tensor with the same memory and
                                          ///< shape; empty if there is none
};

/// Totals over tensors. The field `tensors` counts all names. The other fields count tensors with
/// the same memory and shape (tied weights) only once.
struct TensorTotals {
  int64_t tensors = 0;    ///< number of names
  int64_t elements = 0;   ///< number of elements
  int64_t trainable = 0;  ///< elements of trainable parameters
  int64_t frozen = 0;     ///< elements of frozen parameters
  int64_t buffers = 0;    ///< elements of buffers
  int64_t bytes = 0;      ///< size in bytes
};

/// Collects the metadata of tensors and detects tensors with the same memory and shape, such as
/// tied weights.
///
///     TensorList list;
///     list.add("weight", tensor, /*is_buffer=*/false);
class ATTEND_API TensorList {
 public:
  /// Adds a tensor.
  void add(const std::string& name, const torch::Tensor& tensor, bool is_buffer);
  /// Returns the tensors in the order in which they were added.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::pair<const void*, std::vector<int64_t>>, std::string> seen_;
};

/// Returns the parameters of a module, then the buffers, each in the order of registration.
ATTEND_API std::vector<TensorInfo> tensors_of(ConstModuleRef module);

/// Returns the tensors of a safetensors file, in the order of their offsets.
ATTEND_API std::vector<TensorInfo> tensors_of(const SafetensorsHeader& header);

/// Returns the totals over `tensors`.
ATTEND_API TensorTotals totals_of(const std::vector<TensorInfo>& tensors);

}  // namespace attend
