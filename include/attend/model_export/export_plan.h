#pragma once

#include "attend/export/export_options.h"
#include "attend/export/torchscript.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

#include <filesystem>
#include <memory>

namespace attend {

/// All that the exporters ask for: how a model of this library is called, and at which sizes.
///
///     auto plan = plan_export(model);
///     plan.options.extra_files = {{"tokenizer.json", text}};
///     export_torchscript(plan, "model.pt");
///     export_pt2(plan, "model.pt2");
struct ExportPlan {
  std::shared_ptr<torch::nn::Module> model;
  Forward forward;
  std::vector<torch::Tensor> example_inputs;
  ExportOptions options;
  TorchScriptMethods methods;  ///< beside forward; the other formats have none
};

// As the exporters of these names do with the parts of a plan.
ExportReport export_torchscript(const ExportPlan& plan, const std::filesystem::path& path);
ExportReport export_pt2(const ExportPlan& plan, const std::filesystem::path& path);
ExportReport export_onnx(const ExportPlan& plan, const std::filesystem::path& path);

/// `forward(tokens)`: int64 (B, T), T up to the context, to logits (B, T, V). Its TorchScript file
/// has these methods, too, the first and the last unless the context is 1, and none of them if the
/// model has no layers:
///
/// - `generate(prompt, max_new_tokens=200, temperature=1.0, top_k=0)`: continues the texts (B, T),
///   returns the new tokens (B, max_new_tokens). Temperature 0 takes the likeliest, top_k 0 draws
///   from all. Each token is computed once, as long as the text fits the context; of a longer one
///   it sees the end, and computes that for each new token.
/// - `attention(tokens)`: the weights of every layer, (L, B, H, T, T).
/// - `step(tokens, past)`: the logits of tokens (B, T) that follow those in `past` (L, 2, B, G, S,
///   D), keys and values of each layer, which may have S = 0; returns them and the longer past.
ExportPlan plan_export(LanguageModel model);

/// `forward(tokens)`: int64 (B, T) to logits (B, C). Its TorchScript file has these methods, too:
///
/// - `predict(tokens, valid=None)`: the number of the likeliest class of each text (B); valid
///   (B, T), bool: true = a token, false = padding.
/// - `forward_padded(tokens, valid)`: the logits of texts with padding.
/// - `attention(tokens)`: as above, unless the model has no layers.
ExportPlan plan_export(SequenceClassifier model);

/// `forward(source, target)`: int64 (B, S) and (B, T) to logits (B, T, V). Its TorchScript file has
/// these methods, too, the last two unless its decoder has no layers or the context is 1:
///
/// - `encode(source)`: what the decoder looks at, (B, S, E).
/// - `generate(source, begin, end, max_new_tokens=200, temperature=1.0, top_k=0)`: the answer to
///   each source, (B, N): the tokens after `begin` up to and without `end`, filled up by `end`; as
///   many as the context at most.
/// - `step(target, memory, past)`: as above, given what `encode` made of the source.
ExportPlan plan_export(Seq2Seq model);

}  // namespace attend
