#pragma once

#include "attend/api.h"
#include "attend/pretrained/pretrained.h"

#include <filesystem>
#include <string>
#include <vector>

namespace attend {

/// Adds the low-rank adapter in a folder that PEFT has written (`adapter_config.json` and
/// `adapter_model.safetensors`) to a published model. The adapters are those of `add_lora_adapter`:
/// one for each linear layer of transformers, so that `q_proj`, `k_proj` and `v_proj` are three
/// adapters of `qkv`. All other parameters are frozen. The head of a classifier is replaced if the
/// adapter contains one (`modules_to_save`), and is not frozen. Safe for untrusted folders.
///
/// `load_pretrained` loads such a folder together with the base model that it names, and gives an
/// encoder the head that the adapter contains.
///
/// Throws InputError if the model has adapters or lacks the head that the adapter contains, if a
/// file is missing or malformed, if a key of `adapter_config.json` is not
/// supported (DoRA, trained biases, saved modules other than the head, initializations that change
/// the base model), or if names or shapes of the weights differ from those of the model, or from
/// the modules, ranks and patterns of `adapter_config.json`. The message names the file, and the
/// values found and expected. The model is then unchanged.
///
///     auto llama = attend::load_pretrained("Llama-3.2-1B");
///     attend::load_peft_adapter(llama, "my-adapter");
///     attend::merge_lora(attend::module_of(llama.model));
ATTEND_API void load_peft_adapter(Pretrained& pretrained, const std::filesystem::path& folder);

/// True if `folder` contains an adapter of PEFT (`adapter_config.json`), and no model.
ATTEND_API bool is_peft_adapter(const std::filesystem::path& folder);

/// Options of `save_peft_adapter`.
struct SavePeftAdapterOptions {
  /// Folder or name of the base model, which PEFT and `load_pretrained` load; empty = not named.
  std::string base = {};
  /// Names of the classes of the base model, in its order. If they are those of the classifier in
  /// another order, its head is written in the order of the base model, which PEFT reads.
  std::vector<std::string> classes = {};
};

/// Writes the low-rank adapters of a model as a folder that PEFT loads, and `load_peft_adapter`:
/// `adapter_config.json` and `adapter_model.safetensors`. Several adapters of a layer that
/// transformers does not divide, such as `c_attn` of GPT-2, become one, whose rank is the sum. The
/// head of a classifier, and its pooler without an adapter, are written, too (`modules_to_save`).
///
/// Throws InputError in the same cases as `save_pretrained`, and for a model without adapters or
/// with an adapter of its head of classes. If this function throws, `folder` is unchanged.
///
///     auto tuned = attend::load_pretrained("Llama-3.2-1B");
///     attend::add_lora(attend::module_of(tuned.model), {.rank = 8});
///     attend::save_peft_adapter(tuned, "my-adapter", {.base = "Llama-3.2-1B"});
ATTEND_API void save_peft_adapter(const Pretrained& pretrained, const std::filesystem::path& folder,
                                  const SavePeftAdapterOptions& options = {});

}  // namespace attend
