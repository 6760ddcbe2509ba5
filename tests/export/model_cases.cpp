#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "export/export_case.h"
#include "support/stack_configs.h"

#include <algorithm>

namespace attend {
namespace {

constexpr int64_t kVocab = 11;
constexpr int64_t kSourceVocab = 13;
constexpr int64_t kContext = 16;

/// Returns the stacks of `each_stack`, a stack for each activation that these stacks do not use,
/// and a stack with one active expert per token. All stacks have dropout.
std::vector<NamedStack> all_stacks() {
  auto stacks = each_stack();
  const auto plain = stacks.front().config;
  for (const auto name : {"relu", "gelu_tanh", "silu", "glu", "geglu", "geglu_tanh"}) {
    stacks.push_back({name, plain});
    stacks.back().config.activation = *from_string<Activation>(name);
  }
  stacks.push_back({"one_expert", plain});
  stacks.back().config.num_experts = 3;
  stacks.back().config.num_experts_per_tok = 1;
  for (auto& [name, config] : stacks) {
    config.dropout = 0.5;
    // One layer is enough (and loads faster), except in "plain" and for features that connect
    // layers.
    if (name != std::string_view("plain") && !config.value_residual &&
        !config.relative_attention_shared && config.sliding_window_pattern.empty()) {
      config.num_layers = std::min<int64_t>(config.num_layers, 1);
    }
  }
  return stacks;
}

StackConfig stack_of(std::string_view name) {
  for (const auto& stack : all_stacks()) {
    if (stack.name == name) return stack.config;
  }
  TORCH_CHECK_VALUE(false, "unknown stack '", name, "'");
}

LanguageModel language_model(const StackConfig& stack, bool tie_embeddings = true) {
  return LanguageModel(LanguageModelConfig{.vocab_size = kVocab,
                                           .max_seq_len = kContext,
                                           .tie_embeddings = tie_embeddings,
                                           .stack = stack});
}

SequenceClassifier classifier(std::string_view stack, Pooling pooling = Pooling::mean) {
  return SequenceClassifier(SequenceClassifierConfig{.vocab_size = kVocab,
                                                     .num_classes = 3,
                                                     .max_seq_len = kContext,
                                                     .pooling = pooling,
                                                     .stack = stack_of(stack)});
}

Seq2Seq seq2seq(std::string_view stack, int64_t num_decoder_layers = -1,
                bool tie_embeddings = true) {
  return Seq2Seq(Seq2SeqConfig{.source_vocab_size = kSourceVocab,
                               .target_vocab_size = kVocab,
                               .max_seq_len = kContext,
                               .num_decoder_layers = num_decoder_layers,
                               .tie_embeddings = tie_embeddings,
                               .stack = stack_of(stack)});
}

const auto kForwardTwo = [](auto& model, const Tensors& in) {
  return model.forward(in.at(0), in.at(1));
};
const auto kForwardThree = [](auto& model, const Tensors& in) {
  return model.forward(in.at(0), in.at(1), in.at(2));
};
const auto kPacked = [](auto& model, const Tensors& in) {
  return model.forward(in.at(0), {.segments = in.at(1)});
};
const auto kWithPositions = [](auto& model, const Tensors& in) {
  return model.forward(in.at(0), {.positions = in.at(1)});
};

std::vector<ExportCase> language_model_cases() {
  constexpr auto* kName = "LanguageModel";
  const auto row = tokens("tokens", kVocab);
  const auto of = [&](std::string_view stack) { return language_model(stack_of(stack)); };
  std::vector<ExportCase> cases;
  for (const auto& [name, config] : all_stacks()) {
    cases.push_back(make_case(kName, name, language_model(config), {row}));
  }
  const std::vector<ExportCase> more{
      make_case(kName, "untied", language_model(stack_of("plain"), /*tied=*/false), {row}),
      make_case(kName, "unbatched", of("plain"), {tokens("tokens", kVocab, {kLength})}),
      make_case(kName, "padded", of("plain"), {row, bools("key_mask")}, kPadded),
      make_case(kName, "padded_all_together", of("all_together"), {row, bools("key_mask")},
                kPadded),
      make_case(kName, "padded_smeared_keys", of("smeared_keys"), {row, bools("key_mask")},
                kPadded),
      make_case(kName, "packed", of("plain"), {row, non_decreasing("documents")}, kPacked),
      make_case(kName, "packed_rotary", of("rotary"), {row, non_decreasing("documents")}, kPacked),
      make_case(kName, "rotary_with_positions", of("rotary"), {row, non_decreasing("positions")},
                kWithPositions),
      cast(make_case(kName, "float64", of("plain"), {row}), torch::kDouble),
      cast(make_case(kName, "float64_all_together", of("all_together"), {row}), torch::kDouble),
      cast(make_case(kName, "bfloat16", of("plain"), {row}), torch::kBFloat16),
      cast(make_case(kName, "bfloat16_all_together", of("all_together"), {row}), torch::kBFloat16),
      cast(make_case(kName, "float16", of("as_in_llama"), {row}), torch::kHalf),
  };
  cases.insert(cases.end(), more.begin(), more.end());
  cases.push_back(make_case(kName, "logit_scale_and_soft_cap",
                            LanguageModel(LanguageModelConfig{.vocab_size = kVocab,
                                                              .max_seq_len = kContext,
                                                              .logit_scale = 0.5,
                                                              .final_logit_soft_cap = 2.0,
                                                              .stack = stack_of("plain")}),
                            {row}));
  return cases;
}

std::vector<ExportCase> classifier_cases() {
  constexpr auto* kName = "SequenceClassifier";
  const auto row = tokens("tokens", kVocab);
  std::vector<ExportCase> cases;
  for (const auto pooling : {Pooling::mean, Pooling::max, Pooling::first, Pooling::none}) {
    const std::string name(to_string(pooling));
    cases.push_back(make_case(kName, name, classifier("plain", pooling), {row}));
    cases.push_back(make_case(kName, name + "_padded", classifier("plain", pooling),
                              {row, bools("key_mask")}, kForwardTwo));
  }
  // These options behave differently without causal masking.
  for (const auto* stack : {"rotary", "alibi", "relative", "sliding_window", "attention_sinks",
                            "smeared_keys", "value_residual", "experts", "all_together"}) {
    cases.push_back(
        make_case(kName, stack, classifier(stack), {row, bools("key_mask")}, kForwardTwo));
  }
  SequenceClassifierConfig bert{.vocab_size = kVocab,
                                .num_classes = 3,
                                .max_seq_len = kContext,
                                .type_vocab_size = 2,
                                .pooling = Pooling::first,
                                .pooler = true,
                                .stack = stack_of("post_norm")};
  bert.stack.embedding_norm = true;
  bert.stack.final_norm = false;
  cases.push_back(make_case(kName, "as_in_bert", SequenceClassifier(bert),
                            {row, bools("key_mask"), tokens("token_types", 2)}, kForwardThree));
  SequenceClassifierConfig masked{
      .vocab_size = kVocab, .max_seq_len = kContext, .masked_lm = true, .stack = stack_of("plain")};
  cases.push_back(make_case(kName, "masked_lm", SequenceClassifier(masked),
                            {row, bools("key_mask")}, kForwardTwo));
  return cases;
}

std::vector<ExportCase> seq2seq_cases() {
  constexpr auto* kName = "Seq2Seq";
  const auto source = tokens("source", kSourceVocab, {kBatch, kMemoryLength});
  const auto target = tokens("target", kVocab);
  const auto key_mask = bools("source_key_mask", {kBatch, kMemoryLength});
  std::vector<ExportCase> cases{
      make_case(kName, "untied", seq2seq("plain", -1, /*tied=*/false), {source, target},
                kForwardTwo),
      make_case(kName, "one_decoder_layer", seq2seq("plain", 1), {source, target}, kForwardTwo),
      make_case(kName, "padded", seq2seq("plain"), {source, target, key_mask}, kForwardThree),
      cast(make_case(kName, "float64", seq2seq("plain"), {source, target}, kForwardTwo),
           torch::kDouble),
      cast(make_case(kName, "bfloat16", seq2seq("plain"), {source, target}, kForwardTwo),
           torch::kBFloat16),
  };
  for (const auto* stack :
       {"plain", "no_layers", "sinusoidal", "rotary", "alibi", "relative", "grouped_query",
        "relative_shared", "sliding_window", "sliding_window_pattern", "post_norm", "parallel",
        "parallel_separate_norms", "experts", "as_in_llama", "all_together"}) {
    cases.push_back(make_case(kName, stack, seq2seq(stack), {source, target}, kForwardTwo));
  }
  return cases;
}

}  // namespace

std::vector<ExportCase> model_cases() {
  std::vector<ExportCase> all;
  for (auto& cases : {language_model_cases(), classifier_cases(), seq2seq_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace attend
