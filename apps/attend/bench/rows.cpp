#include "bench/rows.h"

#include "attend/ops/flop_counter.h"
#include "attend/train/task.h"
#include "attend/train/task_objective.h"

#include <torch/utils.h>

#include <stdexcept>

namespace attend::app {

train::Recipe training_recipe(const BenchRow& row, const std::string& text) {
  auto recipe = train::find_task("text").defaults;
  recipe.text = {text};
  recipe.model = LanguageModelConfig{
      .max_seq_len = row.at("tokens"),
      .stack = {.num_layers = row.at("layers"),
                .num_heads = row.at("heads"),
                .embed_dim = row.at("width"),
                .bias = false,
                .gradient_checkpointing = row.value("gradient_checkpointing", false)}};
  recipe.training = {
      .max_steps = int64_t{1} << 40,
      .batch_size = row.at("batch"),
      .lr = row.at("lr"),
      .schedule = train::ScheduleKind::constant,
      .warmup_steps = 0,
      .precision = from_string<train::Precision>(row.at("precision").get<std::string>()).value(),
      .eval_every = int64_t{1} << 40,
      .threads = torch::get_num_threads(),
      .device = row.at("device")};
  return recipe;
}

int64_t flops_of_step(Model& model, const train::Batch& batch) {
  const FlopCounter counter;
  train::logits_of(model, batch);
  // The backward pass computes two matrix products for each matrix product of the forward pass.
  return 3 * counter.flops();
}

LanguageModelConfig decoded_config(const BenchRow& row) {
  LanguageModelConfig config{.vocab_size = row.at("vocab"),
                             .max_seq_len = row.at("max_seq_len"),
                             .stack = {.num_layers = row.at("layers"),
                                       .num_heads = row.at("heads"),
                                       .embed_dim = row.at("width"),
                                       .activation = Activation::gelu_tanh}};
  const auto architecture = row.value("architecture", "gpt2");
  if (architecture == "llama") {
    auto& stack = config.stack;
    stack.num_kv_heads = row.at("kv_heads");
    stack.dim_feedforward = row.at("feed_forward");
    stack.activation = Activation::swiglu;
    stack.bias = false;
    stack.positions = PositionScheme::rotary;
    stack.norm = NormKind::rms;
  } else if (architecture != "gpt2") {
    throw std::runtime_error("the row has the architecture '" + architecture +
                             "', expected gpt2 or llama");
  }
  return config;
}

GenerationOptions greedy(const BenchRow& row) {
  return {.max_new_tokens = row.at("new_tokens"), .sampling = {.temperature = 0.0}};
}

WeightFormat weight_format(const BenchRow& row) {
  return from_string<WeightFormat>(row.value("weights", "packed")).value();
}

int64_t decoded_bytes(const LanguageModel& model, const BenchRow& row) {
  int64_t elements = 0;
  for (const auto& parameter : model->parameters()) elements += parameter.numel();
  const auto bits = [&] {
    switch (weight_format(row)) {
      case WeightFormat::packed:
        return 32;
      case WeightFormat::bf16:
        return 16;
      case WeightFormat::int8:
        return 8;
      case WeightFormat::int4:
        return 5;  // 1 bit for the scales
    }
    TORCH_CHECK(false, "unknown weight format");
  }();
  return elements * bits / 8 * row.at("new_tokens").get<int64_t>();
}

}  // namespace attend::app
