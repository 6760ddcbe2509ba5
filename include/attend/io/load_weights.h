#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"
#include "attend/module_ref.h"

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace attend {

/// Options of `load_weights`.
struct LoadWeightsOptions {
  bool strict = true;  ///< true: missing and unexpected names are errors
  /// Function that returns the name in the module of a tensor in the file. Tensors for which it
  /// returns an empty string are ignored. If it is not set, the names are the same.
  ///
  ///     load_weights(model, "ckpt.safetensors", {.rename = rename_nanogpt});
  ///     load_weights(model, "head.safetensors",
  ///                  {.rename = [](const std::string& name) { return "head." + name; }});
  std::function<std::string(const std::string& name)> rename = {};
  /// Dtype to which all floating-point parameters and buffers of the module are cast before the
  /// weights are copied. By default, the module keeps its dtypes.
  std::optional<torch::Dtype> dtype = {};
};

/// Copies weights from safetensors files into the parameters and buffers of a module, and casts
/// them to its dtypes. Safe for untrusted files.
///
/// `path`: a safetensors file, an index (`model.safetensors.index.json`), or a folder with
/// `model.safetensors` or an index. One tensor at a time is read, so the memory of the module and
/// of the largest tensor suffices. A tensor that is shared under several names needs only one of
/// them in the file. If the file contains more than one, or `rename` returns the same name for
/// several, two of these tensors at a time are read and compared.
///
/// With `strict = false`, returns the missing and unexpected names. All names are those that
/// `rename` returns.
///
/// Throws InputError if the file is missing or malformed, if a shape is wrong, if a dtype cannot be
/// cast (for example, float32 cannot be cast to int64), or if tensors for the same tensor of the
/// module differ. With `strict = true`, also if a name is missing or unexpected. The message lists
/// each name once, names that differ in numbers as "blocks.{0..11}.norm1.weight (12 names)", and
/// proposes a prefix to remove or to add. Throws c10::ValueError if `dtype` is not a floating-point
/// dtype. In all of these cases, the module is unchanged.
///
///     load_weights(model, "model.safetensors");
///     load_weights(model, "folder", {.dtype = torch::kBFloat16});
ATTEND_API IncompatibleKeys load_weights(ModuleRef module, const std::filesystem::path& path,
                                         const LoadWeightsOptions& options = {});

/// Returns the name in `MultiheadAttention`, `TransformerBlock` or `TransformerEncoder` of a tensor
/// of PyTorch's nn.MultiheadAttention, nn.TransformerEncoderLayer or nn.TransformerEncoder, for
/// `LoadWeightsOptions::rename`. The module may be a part of another. Other names are returned
/// unchanged. If kdim or vdim differ from embed_dim, only attention without biases can be loaded,
/// because PyTorch has one tensor for the biases of query, key and value; `bias_k` and `bias_v` are
/// not supported.
///
///     rename_pytorch_encoder("layers.3.linear1.weight");  // "blocks.3.feed_forward.up.weight"
ATTEND_API std::string rename_pytorch_encoder(const std::string& name);

/// Returns the name in `DecoderBlock` or `TransformerDecoder` of a tensor of PyTorch's
/// nn.TransformerDecoderLayer or nn.TransformerDecoder; see `rename_pytorch_encoder`. The order of
/// the norms differs: norm2 of PyTorch is `norm_cross`, and norm3 is `norm2`.
///
///     rename_pytorch_decoder("layers.3.norm3.weight");  // "blocks.3.norm2.weight"
ATTEND_API std::string rename_pytorch_decoder(const std::string& name);

/// Returns the name in `LanguageModel`, with tied embeddings, of a tensor of nanoGPT's GPT, for
/// `LoadWeightsOptions::rename`. Removes the prefix `_orig_mod.` of torch.compile. Returns an empty
/// string for the causal mask `attn.bias` in files of old versions. Other names are returned
/// unchanged.
///
///     rename_nanogpt("transformer.h.3.ln_1.weight");  // "decoder.blocks.3.norm1.weight"
ATTEND_API std::string rename_nanogpt(const std::string& name);

/// Returns the file of a folder from which `SafetensorsFiles` reads the weights:
/// `model.safetensors` or `model.safetensors.index.json`. Throws InputError if there is none.
/// Pickle files are refused, because they can run any program.
ATTEND_API std::filesystem::path weights_file(const std::filesystem::path& folder);

}  // namespace attend
