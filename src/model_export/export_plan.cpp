#include "attend/model_export/export_plan.h"

#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/ops/attention_recorder.h"
#include "model_export/growing_cache.h"
#include "model_export/torchscript_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>

#include <algorithm>

namespace attend {
namespace {

using Inputs = std::vector<torch::Tensor>;

constexpr int64_t kBatch = 2;

/// Half the context, so that there are lengths below and above.
int64_t example_length(int64_t context) {
  return std::max<int64_t>(1, context / 2);
}

/// How many tokens went before: such that one more fits.
int64_t example_past_length(int64_t context) {
  return std::clamp<int64_t>(context - 1, 1, 3);
}

/// Whether there is something to continue from, and to continue with.
bool takes_steps(int64_t layers, int64_t context) {
  return layers > 0 && context > 1;
}

/// Tokens (B, T).
torch::Tensor example_tokens(int64_t length, int64_t vocab_size, torch::Device device) {
  const auto ids = at::arange(kBatch * length, torch::TensorOptions(torch::kLong).device(device));
  return ids.remainder(vocab_size).view({kBatch, length});
}

/// Of the weight's dtype and on its device.
torch::Tensor any_numbers(const std::vector<int64_t>& shape, const torch::Tensor& weight) {
  return at::arange(c10::multiply_integers(shape), weight.options()).sin().view(shape);
}

/// Keys and values of so many layers as the first tokens leave them, any numbers: (L, 2, B, G, S,
/// D).
torch::Tensor example_past(const StackConfig& stack, int64_t layers, int64_t length,
                           const torch::Tensor& weight) {
  const auto num_kv_heads = stack.num_kv_heads == 0 ? stack.num_heads : stack.num_kv_heads;
  const auto head_dim = stack.head_dim == 0 ? stack.embed_dim / stack.num_heads : stack.head_dim;
  return any_numbers({layers, 2, kBatch, num_kv_heads, length, head_dim}, weight);
}

DynamicDimension batch(std::size_t input, int64_t dimension = 0) {
  return {input, dimension, "batch"};
}

DynamicDimension length(std::size_t input, int64_t dimension, int64_t greatest,
                        const char* name = "length") {
  return {input, dimension, name, 1, greatest};
}

/// `past` (L, 2, B, G, S, D).
CacheSizes sizes_of(const torch::Tensor& past, int64_t context) {
  return {.num_layers = past.size(0),
          .num_kv_heads = past.size(3),
          .head_dim = past.size(5),
          .max_seq_len = context};
}

TorchScriptMethod attention_method(const Forward& forward, const torch::Tensor& tokens,
                                   int64_t context) {
  const auto weights = [forward](const Inputs& in) -> Outputs {
    const AttentionRecorder recorder;
    forward(in);
    return at::stack(recorder.weights());  // (L, B, H, T, T)
  };
  return {"attention", weights, {tokens}, {"tokens"}, {batch(0), length(0, 1, context)}};
}

}  // namespace

ExportReport export_torchscript(const ExportPlan& plan, const std::filesystem::path& path) {
  return export_torchscript(*plan.model, plan.forward, plan.example_inputs, path, plan.options,
                            plan.methods);
}

ExportReport export_pt2(const ExportPlan& plan, const std::filesystem::path& path) {
  return export_pt2(*plan.model, plan.forward, plan.example_inputs, path, plan.options);
}

ExportReport export_onnx(const ExportPlan& plan, const std::filesystem::path& path) {
  return export_onnx(*plan.model, plan.forward, plan.example_inputs, path, plan.options);
}

ExportPlan plan_export(LanguageModel model) {
  const auto& config = model->config;
  const auto& weight = model->embedding->token->weight;
  const auto context = config.max_seq_len;
  const auto tokens = example_tokens(example_length(context), config.vocab_size, weight.device());
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model(in[0]); };
  plan.example_inputs = {tokens};
  plan.options = {.input_names = {"tokens"},
                  .output_names = {"logits"},
                  .dynamic = {batch(0), length(0, 1, context)}};
  if (config.stack.num_layers > 0) {
    plan.methods.traced.push_back(attention_method(plan.forward, tokens, context));
  }
  if (!takes_steps(config.stack.num_layers, context)) return plan;

  const auto step = [model](const Inputs& in) mutable -> Outputs {
    GrowingCache cache(in[1]);
    const auto x = model->embedding->forward(in[0], cache.positions(in[0]));  // (B, T, E)
    const auto y = model->decoder->forward(x, {.causal = true}, {.cache = &cache});
    return std::vector<torch::Tensor>{model->logits(y), cache.longer_past()};
  };
  const auto before = example_past_length(context);
  const auto past = example_past(config.stack, config.stack.num_layers, before, weight);
  const auto next = example_tokens(1, config.vocab_size, weight.device());
  plan.methods.traced.push_back({.name = "step",
                                 .function = step,
                                 .example_inputs = {next, past},
                                 .input_names = {"tokens", "past"},
                                 .dynamic = {batch(0), length(0, 1, context - before), batch(1, 2),
                                             length(1, 4, before, "past")}});
  plan.methods.source = language_model_source(sizes_of(past, context));
  return plan;
}

ExportPlan plan_export(SequenceClassifier model) {
  const auto& config = model->config;
  const auto context = config.max_seq_len;
  const auto tokens = example_tokens(example_length(context), config.vocab_size,
                                     model->embedding->token->weight.device());
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model->forward(in[0]); };
  plan.example_inputs = {tokens};
  plan.options = {.input_names = {"tokens"},
                  .output_names = {"logits"},
                  .dynamic = {batch(0), length(0, 1, context)}};
  const auto padded = [model](const Inputs& in) mutable { return model->forward(in[0], in[1]); };
  const auto valid = at::ones_like(tokens, torch::kBool);
  plan.methods.traced = {
      {.name = "forward_padded",
       .function = padded,
       .example_inputs = {tokens, valid},
       .input_names = {"tokens", "valid"},
       .dynamic = {batch(0), length(0, 1, context), batch(1), length(1, 1, context)}}};
  if (config.stack.num_layers > 0) {
    plan.methods.traced.push_back(attention_method(plan.forward, tokens, context));
  }
  plan.methods.source = classifier_source();
  return plan;
}

ExportPlan plan_export(Seq2Seq model) {
  const auto& config = model->config;
  const auto& weight = model->target_embedding->token->weight;
  const auto context = config.max_seq_len;
  const auto source =
      example_tokens(example_length(context), config.source_vocab_size, weight.device());
  const auto target = example_tokens(std::max<int64_t>(1, example_length(context) - 1),
                                     config.target_vocab_size, weight.device());
  const auto source_length = length(0, 1, context, "source_length");
  ExportPlan plan;
  plan.model = model.ptr();
  plan.forward = [model](const Inputs& in) mutable { return model->forward(in[0], in[1]); };
  plan.example_inputs = {source, target};
  plan.options = {
      .input_names = {"source", "target"},
      .output_names = {"logits"},
      .dynamic = {batch(0), source_length, batch(1), length(1, 1, context, "target_length")}};
  const auto encode = [model](const Inputs& in) mutable { return model->encode(in[0]); };
  plan.methods.traced = {{.name = "encode",
                          .function = encode,
                          .example_inputs = {source},
                          .input_names = {"source"},
                          .dynamic = {batch(0), source_length}}};
  const auto layers = static_cast<int64_t>(model->transformer->decoder->blocks->size());
  if (!takes_steps(layers, context)) return plan;

  const auto step = [model](const Inputs& in) mutable -> Outputs {
    GrowingCache cache(in[2]);
    const auto x = model->target_embedding->forward(in[0], cache.positions(in[0]));  // (B, T, E)
    const auto y =
        model->transformer->decoder->forward(x, in[1], {.causal = true}, {}, {.cache = &cache});
    return std::vector<torch::Tensor>{model->logits(y), cache.longer_past()};
  };
  const auto before = example_past_length(context);
  const auto past = example_past(config.stack, layers, before, weight);
  const auto next = example_tokens(1, config.target_vocab_size, weight.device());
  const auto memory =
      any_numbers({kBatch, example_length(context), config.stack.embed_dim}, weight);
  plan.methods.traced.push_back({.name = "step",
                                 .function = step,
                                 .example_inputs = {next, memory, past},
                                 .input_names = {"target", "memory", "past"},
                                 .dynamic = {batch(0), length(0, 1, context - before), batch(1),
                                             length(1, 1, context, "source_length"), batch(2, 2),
                                             length(2, 4, before, "past")}});
  plan.methods.source = seq2seq_source(sizes_of(past, context));
  return plan;
}

}  // namespace attend
