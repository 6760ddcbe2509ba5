#include "attend/model_export/export_plan.h"

#include "attend/export/onnx_contents.h"
#include "attend/models/generation.h"
#include "attend/ops/attention_recorder.h"
#include "attend/pt2/pt2_program.h"
#include "support/close.h"
#include "support/stack_configs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

namespace attend {
namespace {

using Tensors = std::vector<torch::Tensor>;

template <typename Model>
torch::jit::Module exported(Model model) {
  const TemporaryDirectory directory;
  const auto path = directory / "model.pt";
  export_torchscript(plan_export(model), path);
  model->eval();
  return torch::jit::load(path.string());
}

torch::Tensor call(const torch::jit::Module& file, const char* method, torch::jit::Stack inputs,
                   const torch::jit::Kwargs& named = {}) {
  return file.get_method(method)(std::move(inputs), named).toTensor();
}

LanguageModelConfig small(PositionScheme positions) {
  return {.vocab_size = 11,
          .max_seq_len = 8,
          .stack = {.num_layers = 2,
                    .num_heads = 2,
                    .num_kv_heads = 1,
                    .embed_dim = 8,
                    .positions = positions,
                    .qk_norm = QKNormKind::rms,
                    .value_residual = true}};
}

class LanguageModelExportPlan : public testing::TestWithParam<PositionScheme> {};

TEST_P(LanguageModelExportPlan, GeneratesAsTheModel) {
  for (const auto* variant : {"plain", "windowed", "per layer"}) {
    SCOPED_TRACE(variant);
    auto config = small(GetParam());
    if (variant == std::string_view("windowed")) {
      config.stack.smeared_keys = true;
      config.stack.sliding_window = 3;
    } else if (variant == std::string_view("per layer")) {
      config.stack.sliding_window_pattern = {3, 0};
      config.stack.relative_attention_shared = GetParam() == PositionScheme::relative;
      config.final_logit_soft_cap = 2;
    }
    LanguageModel model(config);
    const auto file = exported(model);
    // The length of the prompt is less than, equal to or greater than max_seq_len (8).
    for (const auto length : {1, 5, 8, 10}) {
      const auto prompt = torch::randint(11, {1, length}, torch::kLong);
      const std::vector<int64_t> tokens(prompt.const_data_ptr<int64_t>(),
                                        prompt.const_data_ptr<int64_t>() + length);
      const auto greedy =
          generate(model, tokens, {.max_new_tokens = 9, .sampling = {.temperature = 0.0}}).tokens;
      EXPECT_TRUE(
          call(file, "generate", {prompt, 9, 0.0}).equal(torch::tensor(greedy).view({1, -1})));
      torch::manual_seed(static_cast<uint64_t>(length));
      const auto drawn =
          generate(model, tokens,
                   {.max_new_tokens = 9, .sampling = {.temperature = 0.7, .top_k = 4}})
              .tokens;
      torch::manual_seed(static_cast<uint64_t>(length));
      EXPECT_TRUE(
          call(file, "generate", {prompt, 9, 0.7, 4}).equal(torch::tensor(drawn).view({1, -1})));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachScheme, LanguageModelExportPlan,
                         testing::Values(PositionScheme::none, PositionScheme::learned,
                                         PositionScheme::sinusoidal, PositionScheme::rotary,
                                         PositionScheme::alibi, PositionScheme::relative),
                         [](const auto& scheme) { return std::string(to_string(scheme.param)); });

TEST(ExportPlan, GeneratesForEachRowOfABatch) {
  LanguageModel model(small(PositionScheme::rotary));
  const auto file = exported(model);
  const auto prompts = torch::randint(11, {3, 4}, torch::kLong);
  const auto together = call(file, "generate", {prompts, 6, 0.0});
  EXPECT_EQ(together.sizes(), (std::vector<int64_t>{3, 6}));
  for (int64_t row = 0; row < 3; ++row) {
    const auto alone = call(file, "generate", {prompts.narrow(0, row, 1), 6, 0.0});
    EXPECT_TRUE(alone.equal(together.narrow(0, row, 1)));
  }
  EXPECT_EQ(call(file, "generate", {prompts, 0}).sizes(), (std::vector<int64_t>{3, 0}));
}

TEST(ExportPlan, RejectsInvalidPromptsAndOptions) {
  LanguageModel model(small(PositionScheme::rotary));
  const auto file = exported(model);
  const auto expect_error = [&](const torch::jit::Stack& inputs, const char* message) {
    EXPECT_THAT([&] { call(file, "generate", inputs); }, throws<std::exception>(message));
  };
  expect_error({torch::zeros({4}, torch::kLong)}, "found shape [4]");
  expect_error({torch::zeros({1, 0}, torch::kLong)}, "found shape [1, 0]");
  const auto prompt = torch::zeros({1, 2}, torch::kLong);
  expect_error({prompt, -1}, "max_new_tokens (-1)");
  expect_error({prompt, 3, -0.5}, "temperature (-0.5)");
  expect_error({prompt, 3, 1.0, -2}, "top_k (-2)");
}

TEST(ExportPlan, RejectsNonFiniteLogits) {
  LanguageModel model(small(PositionScheme::rotary));
  auto file = exported(model);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : file.parameters()) parameter.fill_(NAN);
  EXPECT_THAT(
      [&] {
        call(file, "generate", {torch::zeros({1, 2}, torch::kLong), 3});
      },
      throws<std::exception>("expected finite logits"));
}

TEST(ExportPlan, RejectsModelsThatCannotGenerate) {
  LanguageModel model(small(PositionScheme::rotary));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.fill_(NAN);
  EXPECT_THAT([&] { exported(model); },
              throws<std::runtime_error>("method 'generate' fails in the exported program: "
                                         "RuntimeError: AssertionError: expected finite logits"));
}

TEST(ExportPlan, ReturnsAttentionWeightsOfAllLayers) {
  LanguageModel model(small(PositionScheme::alibi));
  const auto file = exported(model);
  const auto tokens = torch::randint(11, {3, 7}, torch::kLong);
  const AttentionRecorder recorder;
  model(tokens);
  EXPECT_TRUE(close(call(file, "attention", {tokens}), torch::stack(recorder.weights()), 1e-6));
}

LanguageModel model_of(const StackConfig& stack) {
  LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 12, .stack = stack});
  model->eval();
  return model;
}

/// Decodes `count` tokens greedily with a program that has a cache (see `plan_export_with_cache`).
/// `prompts` (B, T) and `is_token` (B, T), false for padding on the left.
torch::Tensor decode(const ExportPlan& plan, const Forward& program, const torch::Tensor& prompts,
                     const torch::Tensor& is_token, int64_t count) {
  const torch::NoGradGuard no_grad;
  auto mask = is_token.to(torch::kLong);
  Tensors inputs{prompts, mask, (mask.cumsum(1) - 1).clamp_min(0)};
  for (std::size_t i = 3; i < plan.example_inputs.size(); ++i) {  // an empty cache
    const auto& past = plan.example_inputs[i];
    inputs.push_back(
        torch::zeros({prompts.size(0), past.size(1), 0, past.size(3)}, past.options()));
  }
  std::vector<torch::Tensor> generated;
  for (int64_t i = 0; i < count; ++i) {
    const auto outputs = program(inputs).tensors;
    generated.push_back(outputs.at(0).select(1, -1).argmax(-1, true));  // (B, 1)
    mask = torch::cat({mask, torch::ones({prompts.size(0), 1}, torch::kLong)}, 1);
    inputs = {generated.back(), mask, inputs.at(2).slice(1, -1) + 1};
    inputs.insert(inputs.end(), outputs.begin() + 1, outputs.end());
  }
  return torch::cat(generated, 1);
}

torch::Tensor generated(LanguageModel& model, const torch::Tensor& prompt, int64_t count) {
  const std::vector<int64_t> tokens(prompt.const_data_ptr<int64_t>(),
                                    prompt.const_data_ptr<int64_t>() + prompt.numel());
  return torch::tensor(
      generate(model, tokens, {.max_new_tokens = count, .sampling = {.temperature = 0.0}}).tokens);
}

class CachedStack : public testing::TestWithParam<NamedStack> {};

TEST_P(CachedStack, GeneratesAsTheModel) {
  auto model = model_of(GetParam().config);
  const auto plan = plan_export_with_cache(model);
  // The second prompt is shorter, so it is padded on the left.
  const auto prompts = torch::randint(11, {2, 5}, torch::kLong);
  const auto is_token = torch::arange(5) >= torch::tensor({{0}, {2}});
  const auto found = decode(plan, plan.forward, prompts, is_token, 6);
  EXPECT_TRUE(found[0].equal(generated(model, prompts[0], 6)));
  EXPECT_TRUE(found[1].equal(generated(model, prompts[1].slice(0, 2).contiguous(), 6)));
}

std::vector<NamedStack> stacks_with_layers() {
  auto all = each_stack();
  std::erase_if(all, [](const NamedStack& stack) { return stack.config.num_layers == 0; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, CachedStack, testing::ValuesIn(stacks_with_layers()),
                         [](const auto& stack) { return std::string(stack.param.name); });

TEST(ExportPlan, ExportsTheCacheOfALanguageModel) {
  const TemporaryDirectory directory;
  auto model = model_of({.num_layers = 2, .num_heads = 4, .num_kv_heads = 2, .embed_dim = 8});
  const auto plan = plan_export_with_cache(model);
  export_onnx(plan, directory / "model.onnx");
  const auto contents = onnx_contents(directory / "model.onnx");
  using testing::ElementsAre;
  const std::string past = "float32 (batch_size, 2, past_sequence_length, 2)";
  EXPECT_THAT(contents.inputs,
              ElementsAre("input_ids: int64 (batch_size, sequence_length)",
                          "attention_mask: int64 (batch_size, total_sequence_length)",
                          "position_ids: int64 (batch_size, sequence_length)",
                          "past_key_values.0.key: " + past, "past_key_values.0.value: " + past,
                          "past_key_values.1.key: " + past, "past_key_values.1.value: " + past));
  EXPECT_EQ(contents.outputs.at(0), "logits: float32 (batch_size, sequence_length, 11)");
  EXPECT_THAT(contents.outputs.at(4), testing::HasSubstr("present.1.value: "));

  export_pt2(plan, directory / "model.pt2");
  const auto program = load_pt2(directory / "model.pt2");
  const auto prompt = torch::randint(11, {1, 4}, torch::kLong);
  const auto run = [&](const Tensors& inputs) { return Outputs(program.forward(inputs)); };
  EXPECT_TRUE(
      decode(plan, run, prompt, torch::ones_like(prompt), 5)[0].equal(generated(model, prompt, 5)));
}

TEST(ExportPlan, RejectsModelsWithoutACache) {
  EXPECT_THAT([] { plan_export_with_cache(model_of({.num_layers = 0})); },
              throws_naming<c10::ValueError>("num_layers", "0"));
}

TEST(ExportPlan, HasOnlyForwardWithoutLayers) {
  auto config = small(PositionScheme::learned);
  config.stack.num_layers = 0;
  const auto file = exported(LanguageModel(config));
  EXPECT_EQ(file.get_methods().size(), 1U);
}

TEST(ExportPlan, SupportsShortContexts) {
  for (const int64_t context : {1, 2, 3, 4}) {
    auto config = small(PositionScheme::learned);
    config.max_seq_len = context;
    LanguageModel model(config);
    const auto file = exported(model);
    if (context == 1) continue;
    const auto tokens =
        generate(model, {3}, {.max_new_tokens = 5, .sampling = {.temperature = 0.0}}).tokens;
    const auto prompt = torch::full({1, 1}, 3, torch::kLong);
    EXPECT_TRUE(
        call(file, "generate", {prompt, 5, 0.0}).equal(torch::tensor(tokens).view({1, -1})));
  }
}

TEST(ExportPlan, PredictsClassesWithAndWithoutPadding) {
  SequenceClassifier model(
      SequenceClassifierConfig{.vocab_size = 11,
                               .num_classes = 5,
                               .max_seq_len = 8,
                               .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8}});
  const auto file = exported(model);
  const auto tokens = torch::randint(11, {6, 7}, torch::kLong);
  EXPECT_TRUE(call(file, "predict", {tokens}).equal(model->forward(tokens).argmax(-1)));
  const auto key_mask = torch::arange(7) < torch::randint(1, 8, {6, 1});
  EXPECT_TRUE(
      call(file, "predict", {tokens, key_mask}).equal(model->forward(tokens, key_mask).argmax(-1)));
  EXPECT_TRUE(close(call(file, "forward_padded", {tokens, key_mask}),
                    model->forward(tokens, key_mask), 1e-5));
  EXPECT_EQ(call(file, "attention", {tokens}).sizes(), (std::vector<int64_t>{2, 6, 2, 7, 7}));
}

TEST(ExportPlan, TakesTheMaskOfPaddedTexts) {
  for (const int64_t num_classes : {0, 5}) {
    SequenceClassifier model(
        SequenceClassifierConfig{.vocab_size = 11,
                                 .num_classes = num_classes,
                                 .max_seq_len = 8,
                                 .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8}});
    model->eval();
    const auto plan = plan_export_with_mask(model);
    EXPECT_THAT(plan.options.output_names,
                testing::ElementsAre(num_classes == 0 ? "sentence_embedding" : "logits"));
    const TemporaryDirectory directory;
    export_torchscript(plan, directory / "model.pt");
    auto file = torch::jit::load((directory / "model.pt").string());
    const auto tokens = torch::randint(11, {2, 7}, torch::kLong);
    const auto mask = (torch::arange(7) < torch::tensor({{7}, {3}})).to(torch::kLong);
    const auto found = file.forward({tokens, mask}).toTensor();
    EXPECT_TRUE(close(found[1], model->forward(tokens[1].slice(0, 0, 3)), 1e-5));
    EXPECT_FALSE(close(found[1], model->forward(tokens[1]), 1e-3));
  }
}

TEST(ExportPlan, ClassifiesWithTokenTypes) {
  SequenceClassifier model(SequenceClassifierConfig{
      .vocab_size = 11,
      .num_classes = 5,
      .max_seq_len = 8,
      .type_vocab_size = 2,
      .pooler = true,
      .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8, .embedding_norm = true}});
  const auto file = exported(model);
  const auto tokens = torch::randint(11, {6, 7}, torch::kLong);
  const auto types = torch::randint(2, {6, 7}, torch::kLong);
  const auto key_mask = torch::arange(7) < torch::randint(1, 8, {6, 1});
  EXPECT_TRUE(close(call(file, "forward_token_types", {tokens, key_mask, types}),
                    model->forward(tokens, key_mask, types), 1e-5));
}

TEST(ExportPlan, GeneratesTargetsAsTheModel) {
  for (const auto positions : {PositionScheme::learned, PositionScheme::relative}) {
    Seq2Seq model(
        Seq2SeqConfig{.source_vocab_size = 9,
                      .target_vocab_size = 7,
                      .max_seq_len = 8,
                      .num_decoder_layers = 3,
                      .stack = {.num_layers = 2,
                                .num_heads = 2,
                                .embed_dim = 8,
                                .positions = positions,
                                .relative_attention_shared = positions == PositionScheme::relative,
                                .norm_order = NormOrder::parallel_separate_norms}});
    const auto file = exported(model);
    for (const auto length : {1, 5, 8}) {
      const auto source = torch::randint(9, {1, length}, torch::kLong);
      const std::vector<int64_t> tokens(source.const_data_ptr<int64_t>(),
                                        source.const_data_ptr<int64_t>() + length);
      for (const int64_t end : {1, 2, 3}) {
        const auto answer = generate(model, tokens, {.bos_token = 0, .eos_token = end},
                                     {.max_new_tokens = 6, .sampling = {.temperature = 0.0}})
                                .tokens;
        EXPECT_TRUE(call(file, "generate", {source, 0, end, 6, 0.0})
                        .equal(torch::tensor(answer, torch::kLong).view({1, -1})));
      }
    }
  }
}

TEST(ExportPlan, PadsTargetsThatEndEarly) {
  Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 9,
                              .target_vocab_size = 3,
                              .max_seq_len = 8,
                              .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}});
  const auto file = exported(model);
  const auto sources = torch::randint(9, {16, 5}, torch::kLong);
  constexpr int64_t kEnd = 1;
  const auto together = call(file, "generate", {sources, 0, kEnd, 8, 0.0});  // (16, N)
  for (int64_t row = 0; row < sources.size(0); ++row) {
    const auto alone = call(file, "generate", {sources.narrow(0, row, 1), 0, kEnd, 8, 0.0});
    const auto length = alone.size(1);
    EXPECT_TRUE(together[row].narrow(0, 0, length).equal(alone[0]));
    EXPECT_TRUE((together[row].slice(0, length) == kEnd).all().item<bool>());
  }
}

}  // namespace
}  // namespace attend
