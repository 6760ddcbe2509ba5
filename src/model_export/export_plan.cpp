#include "attend/model_export/export_plan.h"

#include "attend/export/pt2.h"
#include "attend/ops/attention_recorder.h"
#include "attend/ops/positions.h"
#include "model_export/past_key_values.h"
#include "model_export/torchscript_source.h"
#include "models/rolling_window.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>

namespace attend {
namespace {

using Inputs = std::vector<torch::Tensor>;

constexpr int64_t kBatch = 2;

/// Returns the length of an example input: half of max_seq_len, but at least 1, so that the export
/// is verified with shorter and with longer inputs, and at most 16, since each export runs the
/// example about 20 times.
int64_t example_length(int64_t max_seq_len) {
  return std::clamp<int64_t>(max_seq_len / 2, 1, 16);
}

/// Returns the number of cached tokens in an example input: 3, or max_seq_len - 1 if that is less,
/// so that one more token fits into max_seq_len. max_seq_len must be greater than 1.
int64_t example_past_length(int64_t max_seq_len) {
  return std::clamp<int64_t>(max_seq_len - 1, 1, 3);
}

/// Returns true if the model can decode with a cache.
bool has_step(int64_t layers, int64_t max_seq_len) {
  return layers > 0 && max_seq_len > 1;
}

/// Returns tokens (B, T) in [0, vocab_size).
torch::Tensor example_tokens(int64_t length, int64_t vocab_size, torch::Device device) {
  const auto ids = at::arange(kBatch * length, torch::TensorOptions(torch::kLong).device(device));
  return ids.remainder(vocab_size).view({kBatch, length});
}

/// Returns arbitrary values with the dtype and on the device of `weight`.
torch::Tensor arbitrary_values(const std::vector<int64_t>& shape, const torch::Tensor& weight) {
  return at::arange(c10::multiply_integers(shape), weight.options()).sin().view(shape);
}

/// Returns past_key_values (L, 2, B, G, S, D) with arbitrary values.
torch::Tensor example_past(const StackConfig& stack, int64_t layers, int64_t length,
                           const torch::Tensor& weight) {
  const auto num_kv_heads = stack.num_kv_heads == 0 ? stack.num_heads : stack.num_kv_heads;
  const auto head_dim = stack.head_dim == 0 ? stack.embed_dim / stack.num_heads : stack.head_dim;
  return arbitrary_values({layers, 2, kBatch, num_kv_heads, length, head_dim}, weight);
}

DynamicDimension batch(std::size_t input, int64_t dimension = 0) {
  return {input, dimension, "batch"};
}

DynamicDimension length(std::size_t input, int64_t dimension, int64_t max,
                        const char* name = "length") {
  return {input, dimension, name, 1, max};
}

/// Returns the sizes of the cache `past` (L, 2, B, G, S, D) and the limits of the context of
/// `generate`.
CacheSizes sizes_of(const torch::Tensor& past, const StackConfig& stack, int64_t max_seq_len) {
  return {.num_layers = past.size(0),
          .num_kv_heads = past.size(3),
          .head_dim = past.size(5),
          .max_seq_len = max_seq_len,
          .kept_context = kept_context(max_seq_len),
          .unlimited = rolls(stack, max_seq_len)};
}

TracedMethod attention_method(const Forward& forward, const torch::Tensor& tokens,
                              int64_t max_seq_len) {
  const auto weights = [forward](const Inputs& in) -> Outputs {
    const AttentionRecorder recorder;
    forward(in);
    return at::stack(recorder.weights());  // (L, B, H, T, T)
  };
  return {"attention", weights, {tokens}, {"tokens"}, {batch(0), length(0, 1, max_seq_len)}};
}

}  // namespace

ExportReport export_torchscript(const ExportPlan& plan, const std::filesystem::path& path) {
  return export_torchscript(*plan.model, plan.forward, plan.example_inputs, path, plan.options,
                            plan.methods);
}

ExportReport export_pt2(const ExportPlan& plan, const std::filesystem::path& path) {
  auto options = plan.options;
  // Names of inputs must be identifiers.
  for (auto& name : options.input_names) std::replace(name.begin(), name.end(), '.', '_');
  return export_pt2(*plan.model, plan.forward, plan.example_inputs, path, options);
}

ExportReport export_onnx(const ExportPlan& plan, const std::filesystem::path& path,
                         const OnnxOptions& onnx) {
  return export_onnx(*plan.model, plan.forward, plan.example_inputs, path, plan.options, onnx);
}

ExportPlan plan_export(LanguageModel model) {
  const auto& config = model->config;
  const auto& weight = model->embedding->token->weight;
  const auto max_seq_len = config.max_seq_len;
  const auto tokens =
      example_tokens(example_length(max_seq_len), config.vocab_size, weight.device());
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model(in[0]); };
  plan.example_inputs = {tokens};
  plan.options = {.input_names = {"tokens"},
                  .output_names = {"logits"},
                  .dynamic = {batch(0), length(0, 1, max_seq_len)}};
  if (config.stack.num_layers > 0) {
    plan.methods.traced.push_back(attention_method(plan.forward, tokens, max_seq_len));
  }
  if (!has_step(config.stack.num_layers, max_seq_len)) return plan;

  const auto step = [model](const Inputs& in) mutable -> Outputs {
    PastKeyValues past_key_values(in[1]);
    const auto x = model->embedding->forward(in[0], past_key_values.positions(in[0]));  // (B, T, E)
    const auto y = model->decoder->forward(x, {.causal = true}, {.hook = &past_key_values});
    return std::vector<torch::Tensor>{model->logits(y), past_key_values.updated()};
  };
  const auto before = example_past_length(max_seq_len);
  const auto past = example_past(config.stack, config.stack.num_layers, before, weight);
  const auto next = example_tokens(1, config.vocab_size, weight.device());
  plan.methods.traced.push_back({.name = "step",
                                 .function = step,
                                 .example_inputs = {next, past},
                                 .input_names = {"tokens", "past"},
                                 .dynamic = {batch(0), length(0, 1, max_seq_len - before),
                                             batch(1, 2), length(1, 4, before, "past")}});
  plan.methods.source = language_model_source(sizes_of(past, config.stack, max_seq_len));
  // The prompt of the third call below fills the context if max_seq_len is at most kMaxPrompt.
  // Otherwise, the prompt has kMaxPrompt tokens: a forward pass of a longer prompt may need too
  // much memory.
  constexpr int64_t kMaxPrompt = 1024;
  const auto context = std::min(max_seq_len, kMaxPrompt);
  plan.methods.calls = {
      {"generate", {tokens, 3, 0.0}},     // greedy
      {"generate", {tokens, 3, 1.0, 2}},  // sampled with top_k = 2
      {"generate", {example_tokens(context, config.vocab_size, weight.device()), 2, 0.0}}};
  return plan;
}

ExportPlan plan_export_with_cache(LanguageModel model) {
  const auto& config = model->config;
  const auto layers = config.stack.num_layers;
  const auto max_seq_len = config.max_seq_len;
  TORCH_CHECK_VALUE(has_step(layers, max_seq_len), "num_layers (", layers,
                    ") must be 1 or more and max_seq_len (", max_seq_len,
                    ") must be 2 or more to export a cache");
  const auto& weight = model->embedding->token->weight;
  const auto before = example_past_length(max_seq_len);
  const auto tokens = example_tokens(1, config.vocab_size, weight.device());
  const auto past = example_past(config.stack, layers, before, weight);
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable -> Outputs {
    const auto& ids = in[0];
    const auto& past_key = in[3];
    // Attention requires a mask of S = P + T tokens. A mask of another length is cut, or extended
    // with tokens, so that its length needs no relation to the other sizes.
    const auto all = at::cat({at::ones_like(past_key.select(1, 0).select(-1, 0), torch::kBool),
                              at::ones_like(ids, torch::kBool)},
                             1);  // (B, S)
    const auto key_mask = at::cat({in[1] != 0, all}, 1).index_select(1, positions_like(all, -1));
    PastKeyValues past_key_values({in.begin() + 3, in.end()}, in[2], key_mask);
    const auto x = model->embedding->forward(ids, in[2]);  // (B, T, E)
    const auto y = model->decoder->forward(x, {.causal = true}, {.hook = &past_key_values});
    auto outputs = past_key_values.updated_layers();
    outputs.insert(outputs.begin(), model->logits(y));
    return outputs;
  };
  auto mask = at::ones({kBatch, before + 1}, tokens.options());
  mask[0][0] = 0;
  plan.example_inputs = {tokens, mask, at::full_like(tokens, before)};
  const auto batch_of = [](std::size_t input) -> DynamicDimension {
    return {input, 0, "batch_size"};
  };
  plan.options.input_names = {"input_ids", "attention_mask", "position_ids"};
  plan.options.output_names = {"logits"};
  plan.options.dynamic = {batch_of(0), length(0, 1, max_seq_len, "sequence_length"),
                          batch_of(1), {1, 1, "total_sequence_length", 1, 2 * max_seq_len},
                          batch_of(2), length(2, 1, max_seq_len, "sequence_length")};
  for (const auto& part : past.flatten(0, 1).unbind()) {
    const auto input = plan.example_inputs.size();
    const auto name = fmt::format("{}.{}", (input - 3) / 2, input % 2 == 1 ? "key" : "value");
    plan.example_inputs.push_back(part);
    plan.options.input_names.push_back("past_key_values." + name);
    plan.options.output_names.push_back("present." + name);
    plan.options.dynamic.push_back(batch_of(input));
    plan.options.dynamic.push_back({input, 2, "past_sequence_length", 0, max_seq_len});
  }
  return plan;
}

ExportPlan plan_export_with_mask(SequenceClassifier model) {
  const auto& config = model->config;
  const auto max_seq_len = config.max_seq_len;
  const auto tokens = example_tokens(example_length(max_seq_len), config.vocab_size,
                                     model->embedding->token->weight.device());
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model->forward(in[0], in[1].ne(0)); };
  plan.example_inputs = {tokens, torch::ones_like(tokens)};
  plan.options = {
      .input_names = {"input_ids", "attention_mask"},
      .output_names = {config.num_classes > 0 || config.masked_lm ? "logits"
                                                                  : "sentence_embedding"},
      .dynamic = {batch(0), length(0, 1, max_seq_len), batch(1), length(1, 1, max_seq_len)}};
  return plan;
}

ExportPlan plan_export(SequenceClassifier model) {
  const auto& config = model->config;
  if (config.num_classes == 0 && !config.masked_lm) return plan_export_with_mask(model);
  const auto max_seq_len = config.max_seq_len;
  const auto tokens = example_tokens(example_length(max_seq_len), config.vocab_size,
                                     model->embedding->token->weight.device());
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model->forward(in[0]); };
  plan.example_inputs = {tokens};
  plan.options = {.input_names = {"tokens"},
                  .output_names = {"logits"},
                  .dynamic = {batch(0), length(0, 1, max_seq_len)}};
  const auto padded = [model](const Inputs& in) mutable { return model->forward(in[0], in[1]); };
  const auto key_mask = at::ones_like(tokens, torch::kBool);
  plan.methods.traced = {
      {.name = "forward_padded",
       .function = padded,
       .example_inputs = {tokens, key_mask},
       .input_names = {"tokens", "key_mask"},
       .dynamic = {batch(0), length(0, 1, max_seq_len), batch(1), length(1, 1, max_seq_len)}}};
  if (config.type_vocab_size > 0) {
    const auto typed = [model](const Inputs& in) mutable {
      return model->forward(in[0], in[1], in[2]);
    };
    plan.methods.traced.push_back(
        {.name = "forward_token_types",
         .function = typed,
         .example_inputs = {tokens, key_mask, tokens.remainder(config.type_vocab_size)},
         .input_names = {"tokens", "key_mask", "token_types"},
         .dynamic = {batch(0), length(0, 1, max_seq_len), batch(1), length(1, 1, max_seq_len),
                     batch(2), length(2, 1, max_seq_len)}});
  }
  if (config.stack.num_layers > 0) {
    plan.methods.traced.push_back(attention_method(plan.forward, tokens, max_seq_len));
  }
  plan.methods.source = classifier_source();
  plan.methods.calls = {{"predict", {tokens}}, {"predict", {tokens, key_mask}}};
  return plan;
}

ExportPlan plan_export(Seq2Seq model) {
  const auto& config = model->config;
  const auto& weight = model->target_embedding->token->weight;
  const auto max_seq_len = config.max_seq_len;
  const auto source =
      example_tokens(example_length(max_seq_len), config.source_vocab_size, weight.device());
  const auto target = example_tokens(std::max<int64_t>(1, example_length(max_seq_len) - 1),
                                     config.target_vocab_size, weight.device());
  const auto source_length = length(0, 1, max_seq_len, "source_length");
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model->forward(in[0], in[1]); };
  plan.example_inputs = {source, target};
  plan.options = {
      .input_names = {"source", "target"},
      .output_names = {"logits"},
      .dynamic = {batch(0), source_length, batch(1), length(1, 1, max_seq_len, "target_length")}};
  const auto encode = [model](const Inputs& in) mutable { return model->encode(in[0]); };
  plan.methods.traced = {{.name = "encode",
                          .function = encode,
                          .example_inputs = {source},
                          .input_names = {"source"},
                          .dynamic = {batch(0), source_length}}};
  const auto layers = static_cast<int64_t>(model->transformer->decoder->blocks->size());
  if (!has_step(layers, max_seq_len)) return plan;

  const auto step = [model](const Inputs& in) mutable -> Outputs {
    PastKeyValues past_key_values(in[2]);
    const auto x =
        model->target_embedding->forward(in[0], past_key_values.positions(in[0]));  // (B, T, E)
    const auto y = model->transformer->decoder->forward(x, in[1], {.causal = true}, {},
                                                        {.hook = &past_key_values});
    return std::vector<torch::Tensor>{model->logits(y), past_key_values.updated()};
  };
  const auto before = example_past_length(max_seq_len);
  const auto past = example_past(config.stack, layers, before, weight);
  const auto next = example_tokens(1, config.target_vocab_size, weight.device());
  const auto memory =
      arbitrary_values({kBatch, example_length(max_seq_len), config.stack.embed_dim}, weight);
  plan.methods.traced.push_back({.name = "step",
                                 .function = step,
                                 .example_inputs = {next, memory, past},
                                 .input_names = {"target", "memory", "past"},
                                 .dynamic = {batch(0), length(0, 1, max_seq_len - before), batch(1),
                                             length(1, 1, max_seq_len, "source_length"),
                                             batch(2, 2), length(2, 4, before, "past")}});
  plan.methods.source = seq2seq_source(sizes_of(past, config.stack, max_seq_len));
  plan.methods.calls = {{"generate", {source, 0, 1, 3, 0.0}},      // greedy
                        {"generate", {source, 0, 1, 3, 1.0, 2}}};  // sampled with top_k = 2
  return plan;
}

}  // namespace attend
