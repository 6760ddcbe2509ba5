#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace attend {

/// Options of `add_lora` (low-rank adaptation, Hu et al. 2021).
struct LoraOptions {
  int64_t rank = 8;      ///< rank r of the adapters
  double alpha = 16.0;   ///< the product of an adapter is multiplied by alpha / rank; > 0
  double dropout = 0.0;  ///< dropout probability of the input of the adapters, in train mode
  /// Names of linear layers, or of modules whose linear layers get adapters. A name matches one or
  /// more whole components of a layer's path: `feed_forward` matches
  /// `decoder.blocks.0.feed_forward.up` and `.down`, `blocks.0` all linear layers of block 0. The
  /// router of a MixtureOfExperts is matched by the name `router` only. `query`, `key` and `value`
  /// also match these parts of a joint projection `qkv`, and `gate` that of a gated `up`.
  std::vector<std::string> targets = {"qkv", "out", "feed_forward"};
  bool rslora = false;  ///< multiply by alpha / sqrt(rank) instead (Kalajdzievski 2023)

  /// Compares all options.
  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

/// Options of a `LoraAdapter`.
struct ATTEND_API LoraAdapterOptions {
  int64_t in_features = 0;  ///< width K of the layer's input
  int64_t first_row = 0;    ///< first row of the layer's weight that is adapted
  int64_t rows = 0;         ///< number of adapted rows N
  int64_t rank = 8;         ///< rank r
  double alpha = 16.0;      ///< see `LoraOptions::alpha`
  double dropout = 0.0;     ///< see `LoraOptions::dropout`
  bool rslora = false;      ///< see `LoraOptions::rslora`

  /// Factor of the product: alpha / rank, or alpha / sqrt(rank) with `rslora`.
  double scale() const;
};

/// A low-rank adapter of some or all rows of a linear layer: `scale() * B A dropout(x)` is added to
/// these elements of the layer's output. A has the initialization of torch::nn::Linear (Kaiming
/// uniform with a = sqrt(5)), and B is 0, so a new adapter does not change the output. The
/// parameters are float32 on the device of the weight. With an input in bfloat16 or float16, the
/// two products of an adapter are computed in float32, and the sum is rounded to the dtype of the
/// input, as in PEFT with `autocast_adapter_dtype`. Under autocast, they are computed in the dtype
/// of autocast.
///
/// State dict: `A` (r, K), `B` (N, r).
class ATTEND_API LoraAdapterImpl : public Cloneable<LoraAdapterImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range.
  explicit LoraAdapterImpl(const LoraAdapterOptions& options);

  /// Returns `scale() * B A dropout(x)` in the dtype of the parameters: (..., K) -> (..., N).
  torch::Tensor forward(const torch::Tensor& x);
  /// Does the same for `x` in the dtype of the parameters, and the elements `begin` to `end` - 1 of
  /// the result: (..., K) -> (..., end - begin).
  torch::Tensor product(const torch::Tensor& x, int64_t begin, int64_t end) const;
  /// Returns `scale() * B A` (N, K), in the dtype of the parameters.
  torch::Tensor delta() const;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LoraAdapterOptions options;  ///< options of the adapter
  torch::Tensor A;             ///< (r, K)
  torch::Tensor B;             ///< (N, r)
  /// True while the weight of the layer contains `delta()`, so that `apply_linear` must not add the
  /// product; set by `merge_lora` and `LoraWeightsGuard`.
  bool in_weight = false;
  /// The layer's weight without adapters while they are merged; undefined otherwise. Only the first
  /// adapter of a layer has it.
  torch::Tensor unmerged_weight;
};
TORCH_MODULE(LoraAdapter);

/// An adapter of a module.
struct NamedLoraAdapter {
  std::string layer_name;                    ///< path of the linear layer, such as "blocks.0.out"
  std::string name;                          ///< name in the layer, such as "lora" or "lora_query"
  torch::nn::LinearImpl* layer;              ///< the linear layer, owned by the module
  std::shared_ptr<LoraAdapterImpl> adapter;  ///< the adapter

  /// Prefix of the adapter's parameters in the state dict, such as "blocks.0.out.lora.".
  std::string prefix() const { return (layer_name.empty() ? "" : layer_name + ".") + name + "."; }
};

/// Freezes all parameters of `module`, and adds an adapter to each linear layer that a target
/// matches. A joint projection `qkv` gets one each for query, key and value (`lora_query`,
/// `lora_key`, `lora_value`), a gated `up` one each for the two halves (`lora_gate`, `lora_up`),
/// and every other layer one adapter `lora`. The adapters are submodules of the layers, so their
/// parameters are in `parameters()`, in the state dict (`qkv.lora_query.A`) and in saved files.
/// Returns the paths of the layers with adapters.
///
/// Works with all modules of this library, and with modules of your own that call
/// `apply_linear(x, layer)`. If a module calls `layer(x)`, as those of LibTorch do, create a
/// `LoraWeightsGuard` before each forward pass. LibTorch cannot clone a torch::nn::Linear with an
/// adapter; linear layers of this library can be cloned.
///
/// Throws c10::ValueError if an option is out of range, if a target matches no linear layer (the
/// message contains the names of all linear layers), or if a layer already has adapters.
///
/// With the target `head`, a model with tied embeddings is untied (`TiedEmbeddings`): the adapter
/// changes the head, not the embedding, as in PEFT. Without adapters again, head and embedding are
/// one weight, unless they were merged.
///
///     add_lora(model, {.rank = 8, .alpha = 16, .targets = {"query", "value"}});
ATTEND_API std::vector<std::string> add_lora(ModuleRef module, const LoraOptions& options = {});

/// Adds an adapter with these options to one linear layer, without freezing parameters. `name`
/// begins with "lora" and is the name of the submodule of the layer. The other options of `adapter`
/// are set from the layer if they are 0: `in_features`, and `rows` to all rows after `first_row`.
/// Throws c10::ValueError if the layer has an adapter of this name or does not have these rows, or
/// if its adapters are merged.
///
///     add_lora_adapter(*attention->qkv, "lora_value", {.first_row = 128, .rows = 64, .rank = 4});
ATTEND_API LoraAdapter add_lora_adapter(torch::nn::LinearImpl& layer, const std::string& name,
                                        LoraAdapterOptions options);

/// Returns all adapters of `module`, in the order of its linear layers.
ATTEND_API std::vector<NamedLoraAdapter> lora_adapters(ConstModuleRef module);

/// Adds the products of all adapters to the weights, so that the layers cost as much as without
/// adapters: computed in float32 and rounded once to the dtype of the weight. The adapters stay in
/// the module, and the original weights in memory, until `unmerge_lora` or `remove_lora` is called.
/// Does nothing for layers whose adapters are merged. Save a merged module only after
/// `unmerge_lora` or `remove_lora`: its tensors do not say that the weights contain the products.
///
///     merge_lora(model);  // for a measurement at full speed
///     unmerge_lora(model);
ATTEND_API void merge_lora(ModuleRef module);

/// Restores the weights of before `merge_lora`, bit for bit. Does nothing for layers whose adapters
/// are not merged.
ATTEND_API void unmerge_lora(ModuleRef module);

/// Removes all adapters of `module`, and the original weights of those that are merged. The weights
/// do not change: to keep the effect of the adapters, call `merge_lora` first. Ties the embeddings
/// that `add_lora` untied, unless the adapters of the head are merged. The parameters stay frozen;
/// see `unfreeze`.
ATTEND_API void remove_lora(ModuleRef module);

/// Calls `merge_lora` and `remove_lora`, and unfreezes all parameters: the module is then one
/// without adapters, with their effect. Does nothing for a module without adapters.
///
///     merge_and_remove_lora(model);  // `model` has the names of a model without adapters
ATTEND_API void merge_and_remove_lora(ModuleRef module);

/// While an object exists, `layer->weight` of each torch::nn::Linear of `module` that has adapters
/// is the effective weight W + scale B A, as a tensor of which A and B get gradients. This makes
/// adapters work in modules that call `layer(x)` or read `layer->weight`. The registered parameters
/// do not change. If the module calls `checkpoint`, the guard must exist until `backward` has
/// ended, since the backward pass calls the layers again; otherwise it may end after the forward
/// pass. Layers of this library's modules, whose products include the adapters, and layers with
/// merged adapters are left as they are.
///
/// `Trainer` creates a guard for the forward and backward pass of each batch. The gradient of a
/// weight has the size of the weight, so adapters save less memory here than in the modules of this
/// library.
///
///     auto net = torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Linear(8, 2));
///     add_lora(net, {.rank = 2, .targets = {"0", "1"}});
///     LoraWeightsGuard guard(net);
///     net->forward(x).sum().backward();
class ATTEND_API LoraWeightsGuard {
 public:
  /// Throws c10::ValueError if an adapter of such a layer is in train mode and has dropout, which
  /// an effective weight cannot express.
  explicit LoraWeightsGuard(ModuleRef module);
  /// Restores the weights.
  ~LoraWeightsGuard();
  LoraWeightsGuard(const LoraWeightsGuard&) = delete;
  LoraWeightsGuard& operator=(const LoraWeightsGuard&) = delete;
  LoraWeightsGuard(LoraWeightsGuard&&) = delete;
  LoraWeightsGuard& operator=(LoraWeightsGuard&&) = delete;

 private:
  struct Replaced {
    torch::nn::LinearImpl* layer;
    torch::Tensor weight;
    std::vector<std::shared_ptr<LoraAdapterImpl>> adapters;
  };
  std::vector<Replaced> replaced_;
};

}  // namespace attend
