#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "attend/export/onnx.h"
#include "attend/export/torchscript.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

#include <filesystem>
#include <memory>

namespace attend {

/// Arguments of the exporters for one of this library's models: module, forward, example inputs,
/// dynamic dimensions and TorchScript methods.
///
///     auto plan = plan_export(model);
///     plan.options.extra_files = {{"tokenizer.json", text}};
///     export_torchscript(plan, "model.pt");
///     export_pt2(plan, "model.pt2");
struct ExportPlan {
  std::shared_ptr<torch::nn::Module> model;   ///< the model to export
  Forward forward;                            ///< forward to trace
  std::vector<torch::Tensor> example_inputs;  ///< inputs with which forward is traced
  ExportOptions options;                      ///< names of inputs and outputs, dynamic dimensions
  TorchScriptMethods methods;                 ///< methods in addition to forward, TorchScript only
};

/// Exports a plan to TorchScript.
ATTEND_API ExportReport export_torchscript(const ExportPlan& plan,
                                           const std::filesystem::path& path);
/// Exports a plan to a .pt2 archive.
ATTEND_API ExportReport export_pt2(const ExportPlan& plan, const std::filesystem::path& path);
/// Exports a plan to ONNX.
ATTEND_API ExportReport export_onnx(const ExportPlan& plan, const std::filesystem::path& path,
                                    const OnnxOptions& onnx = {});

/// Returns the plan of a language model. `forward(tokens)` maps int64 (B, T), T <= max_seq_len,
/// to logits (B, T, V). If the model has layers, TorchScript files have these methods as well
/// (`generate` and `step` only if max_seq_len > 1). Shapes: L layers, H heads, G key-value heads,
/// head width D.
///
/// - `generate(prompt, max_new_tokens=200, temperature=1.0, top_k=0)`: returns the new tokens
///   (B, max_new_tokens) for prompts (B, T). Temperature 0 = greedy decoding; top_k 0 = sample from
///   all tokens. Uses a key-value cache. If the context exceeds max_seq_len, the oldest tokens are
///   dropped. Exception: for some models with sliding windows, `attend::generate` drops no tokens.
///   For these models, this method drops no tokens either. Its cache then grows with each token,
///   whereas the cache of `attend::generate` overwrites old tokens.
/// - `attention(tokens)`: returns the attention weights of all layers, (L, B, H, T, T).
/// - `step(tokens, past)`: returns the logits (B, T, V) of `tokens` (B, T) and the updated cache.
///   `past` (L, 2, B, G, S, D) is the cache. For each layer, it contains the keys and values of the
///   S tokens that precede `tokens`. S may be 0.
ATTEND_API ExportPlan plan_export(LanguageModel model);

/// Returns the plan of a language model whose KV cache is an input and an output, named as in the
/// ONNX files of Optimum. In .pt2 archives, the names of inputs have underscores instead of dots.
/// `forward` has these inputs, for a model with L layers, G key-value heads and head width D:
///
/// - `input_ids` (B, T), int64: the new tokens
/// - `attention_mask` (B, P + T), int64: 0 = padding, also among the P cached tokens
/// - `position_ids` (B, T), int64: positions of the new tokens, less than max_seq_len
/// - `past_key_values.N.key` and `past_key_values.N.value` (B, G, P, D) for N = 0 .. L - 1: cache
///
/// and these outputs: `logits` (B, T, V), and `present.N.key` and `present.N.value`
/// (B, G, P + T, D), the cache for the next call. In the first call, P is 0. Throws c10::ValueError
/// if the model has no layers, or if its max_seq_len is 1.
ATTEND_API ExportPlan plan_export_with_cache(LanguageModel model);

/// Returns the plan of a classifier. `forward(tokens)` maps int64 (B, T) to logits (B, C).
/// TorchScript files have these methods as well:
///
/// - `predict(tokens, key_mask=None)`: returns the most likely class of each sequence, (B).
///   key_mask (B, T), bool: true = token, false = padding.
/// - `forward_padded(tokens, key_mask)`: returns the logits of padded sequences.
/// - `forward_token_types(tokens, key_mask, token_types)`: returns the logits of padded sequences
///   with token types. Exists only if the model has token types.
/// - `attention(tokens)`: returns the attention weights of all layers, (L, B, H, T, T). Exists only
///   if the model has layers.
///
/// For a model without classes, see `plan_export_with_mask`.
ATTEND_API ExportPlan plan_export(SequenceClassifier model);

/// Returns the plan of a classifier or encoder of padded texts, with the names of the ONNX files of
/// Optimum and sentence-transformers. `forward(input_ids, attention_mask)` maps int64 (B, T) and
/// int64 (B, T), 0 = padding, to the output `logits` (B, C) or, of a model without classes,
/// `sentence_embedding` (B, E). There are no further methods.
ATTEND_API ExportPlan plan_export_with_mask(SequenceClassifier model);

/// Returns the plan of an encoder-decoder model. `forward(source, target)` maps int64 (B, S) and
/// (B, T) to logits (B, T, V). TorchScript files have these methods as well (`generate` and `step`
/// only if the decoder has layers and max_seq_len > 1):
///
/// - `encode(source)`: returns the encoder output (memory), (B, S, E).
/// - `generate(source, bos_token, eos_token, max_new_tokens=200, temperature=1.0, top_k=0)`:
///   returns the tokens (B, N) that are generated after `bos_token` and before `eos_token`. N is
///   the length of the longest sequence, at most min(max_new_tokens, max_seq_len). Shorter
///   sequences are padded with `eos_token`.
/// - `step(target, memory, past)`: returns the logits of `target` and the updated cache, like the
///   `step` of a language model. `memory` is the result of `encode`.
ATTEND_API ExportPlan plan_export(Seq2Seq model);

}  // namespace attend
