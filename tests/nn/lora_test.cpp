#include "attend/nn/lora.h"

#include "attend/models/generation.h"
#include "attend/models/language_model.h"
#include "attend/models/prepare_for_inference.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/nn/cast_copy.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/eval_guard.h"
#include "attend/nn/freezing.h"
#include "attend/nn/linear.h"
#include "nn/new_layers.h"
#include "ops/autocast.h"
#include "support/close.h"
#include "support/lora.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/serialize.h>

#include <sstream>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LanguageModelConfig small_config() {
  return {.vocab_size = 11,
          .max_seq_len = 12,
          .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8, .dim_feedforward = 12}};
}

LanguageModel adapted_model(const LanguageModelConfig& config, const LoraOptions& options = {}) {
  LanguageModel model(config);
  add_lora(model, options);
  draw_adapters(model);
  return model;
}

std::vector<std::string> names_of_trained(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& each : module.named_parameters()) {
    if (each.value().requires_grad()) names.push_back(each.key());
  }
  return names;
}

std::vector<std::string> prefixes_of(const torch::nn::Module& module) {
  std::vector<std::string> prefixes;
  for (const auto& each : lora_adapters(module)) prefixes.push_back(each.prefix());
  return prefixes;
}

TEST(Lora, NewAdaptersChangeNoOutput) {
  LanguageModel model(small_config());
  const auto tokens = torch::randint(11, {2, 7});
  const auto before = model(tokens);
  const auto layers = add_lora(model);
  EXPECT_EQ(layers.size(), 8);
  EXPECT_TRUE(model(tokens).equal(before));
}

TEST(Lora, OnlyAdaptersAreTrained) {
  auto config = small_config();
  config.stack.num_layers = 1;
  config.stack.activation = Activation::swiglu;
  LanguageModel model(config);
  EXPECT_THAT(
      add_lora(model),
      ElementsAre("decoder.blocks.0.attention.qkv", "decoder.blocks.0.attention.out",
                  "decoder.blocks.0.feed_forward.up", "decoder.blocks.0.feed_forward.down"));
  const std::string block = "decoder.blocks.0.";
  EXPECT_THAT(
      names_of_trained(*model),
      ElementsAre(block + "attention.qkv.lora_query.A", block + "attention.qkv.lora_query.B",
                  block + "attention.qkv.lora_key.A", block + "attention.qkv.lora_key.B",
                  block + "attention.qkv.lora_value.A", block + "attention.qkv.lora_value.B",
                  block + "attention.out.lora.A", block + "attention.out.lora.B",
                  block + "feed_forward.up.lora_gate.A", block + "feed_forward.up.lora_gate.B",
                  block + "feed_forward.up.lora_up.A", block + "feed_forward.up.lora_up.B",
                  block + "feed_forward.down.lora.A", block + "feed_forward.down.lora.B"));
  model(torch::randint(11, {2, 7})).sum().backward();
  for (const auto& each : model->named_parameters())
    EXPECT_EQ(each.value().grad().defined(), each.value().requires_grad()) << each.key();
}

TEST(Lora, TargetsMatchWholeComponentsOfPaths) {
  const auto prefixes = [](const std::vector<std::string>& targets, int64_t num_experts = 0) {
    auto config = small_config();
    config.stack.num_layers = 1;
    config.stack.num_experts = num_experts;
    if (num_experts > 0) config.stack.num_experts_per_tok = 1;
    config.stack.activation = Activation::swiglu;
    config.tie_embeddings = false;
    LanguageModel model(config);
    add_lora(model, {.rank = 2, .targets = targets});
    return prefixes_of(*model);
  };
  const std::string block = "decoder.blocks.0.";
  EXPECT_THAT(prefixes({"query", "value"}), ElementsAre(block + "attention.qkv.lora_query.",
                                                        block + "attention.qkv.lora_value."));
  EXPECT_THAT(prefixes({"attention.key"}), ElementsAre(block + "attention.qkv.lora_key."));
  EXPECT_THAT(prefixes({"gate"}), ElementsAre(block + "feed_forward.up.lora_gate."));
  EXPECT_THAT(prefixes({"blocks.0.attention.out", "head"}),
              ElementsAre(block + "attention.out.lora.", "head.lora."));
  EXPECT_THAT(prefixes({"down"}, 2), ElementsAre(block + "feed_forward.experts.0.down.lora.",
                                                 block + "feed_forward.experts.1.down.lora."));
  EXPECT_EQ(prefixes({"feed_forward"}, 1).size(), 3) << "without the router";
  EXPECT_THAT(prefixes({"router"}, 2), ElementsAre(block + "feed_forward.router.lora."));
}

TEST(Lora, UnknownTargetsAndOptionsOutOfRangeAreRefused) {
  LanguageModel model(small_config());
  const auto adding = [&](LoraOptions options) { return [=] { add_lora(model, options); }; };
  EXPECT_THAT(adding({.targets = {"qkv", "q_proj"}}),
              throws_naming<c10::ValueError>("q_proj", "decoder.blocks.*.attention.qkv", "query",
                                             "decoder.blocks.*.feed_forward.down"));
  EXPECT_THAT(adding({.targets = {"feed"}}), throws_naming<c10::ValueError>("feed"));
  EXPECT_THAT(adding({.targets = {""}}), throws<c10::ValueError>("''"));
  // The tied head is one of the names; it is not untied by targets that are refused.
  EXPECT_THAT(adding({.targets = {"head", "q_proj"}}),
              throws_naming<c10::ValueError>("q_proj", "head"));
  EXPECT_TRUE(model->config.tie_embeddings);
  EXPECT_THAT(adding({.rank = 0}), throws_naming<c10::ValueError>("rank", "0"));
  EXPECT_THAT(adding({.alpha = INFINITY}), throws_naming<c10::ValueError>("alpha", "inf"));
  EXPECT_THAT(adding({.alpha = 0}), throws_naming<c10::ValueError>("alpha", "0"));
  EXPECT_THAT(adding({.alpha = -2}), throws_naming<c10::ValueError>("alpha", "-2"));
  EXPECT_THAT(adding({.dropout = 1}), throws_naming<c10::ValueError>("dropout", "1"));
  EXPECT_THAT(lora_adapters(model), IsEmpty());
  EXPECT_TRUE(model->parameters().front().requires_grad());  // nothing was frozen
  add_lora(model);
  EXPECT_THAT(adding({}), throws_naming<c10::ValueError>("decoder.blocks.0.attention.qkv"));
}

TEST(Lora, AdaptersOfOneLayerDoNotOverlap) {
  auto layer = new_linear({6, 10});
  add_lora_adapter(*layer, "lora_a", {.first_row = 2, .rows = 3, .rank = 2});
  const auto adding = [&](const std::string& name, LoraAdapterOptions options) {
    return [=, &layer] { add_lora_adapter(*layer, name, options); };
  };
  EXPECT_THAT(adding("lora_b", {.first_row = 4, .rows = 2}),
              throws_naming<c10::ValueError>("4", "5", "2"));
  EXPECT_THAT(adding("lora_b", {.first_row = 5, .rows = 6}),
              throws_naming<c10::ValueError>("5", "10"));
  EXPECT_THAT(adding("b", {.first_row = 5}), throws_naming<c10::ValueError>("lora", "b"));
  EXPECT_THAT(adding("lora_a", {.first_row = 5}), throws_naming<c10::ValueError>("lora_a"));
  EXPECT_THAT(adding("lora_b", {.in_features = 5, .first_row = 5}),
              throws_naming<c10::ValueError>("5", "6"));
  const auto added = add_lora_adapter(*layer, "lora_b", {.first_row = 5});
  EXPECT_EQ(added->options.rows, 5);
  EXPECT_EQ(added->options.in_features, 6);
  merge_lora(layer);
  EXPECT_THAT(adding("lora_c", {.rows = 2}), throws_naming<c10::ValueError>("unmerge_lora"));
}

TEST(Lora, AHasTheInitializationOfLinearAndBIsZero) {
  torch::manual_seed(1);
  auto layer = new_linear({200, 100});
  auto adapter = add_lora_adapter(*layer, "lora", {.rank = 50});
  const double bound = 1 / std::sqrt(200.0);  // kaiming_uniform with a = sqrt(5)
  EXPECT_LE(adapter->A.abs().max().item<double>(), bound);
  EXPECT_GE(adapter->A.abs().max().item<double>(), 0.99 * bound);
  EXPECT_NEAR(adapter->A.var().item<double>(), bound * bound / 3, 0.05 * bound * bound);
  EXPECT_EQ(adapter->B.count_nonzero().item<int64_t>(), 0);
}

TEST(Lora, DropoutIsAppliedToTheInputOfAdaptersInTrainModeOnly) {
  auto layer = new_linear({64, 8});
  auto adapter = add_lora_adapter(*layer, "lora", {.rank = 4, .dropout = 0.5});
  draw_adapters(layer);
  const auto x = torch::randn({3, 64});
  torch::manual_seed(2);
  const auto dropped = torch::dropout(x, 0.5, true);
  torch::manual_seed(2);
  const auto expected = torch::linear(x, layer->weight, layer->bias) +
                        2 * 2 * dropped.matmul(adapter->A.t()).matmul(adapter->B.t());
  EXPECT_TRUE(close(apply_linear(x, layer), expected, 1e-5));
  layer->eval();
  const auto y = apply_linear(x, layer);
  EXPECT_TRUE(y.equal(apply_linear(x, layer)));
}

/// The paths that read weights: each gives the results of the merged weights in float64.
using LoraStacks = testing::TestWithParam<NamedStack>;

LoraOptions draw_options(const std::string& target) {
  return {.rank = draw(1, 3), .targets = {target}, .rslora = draw(0, 1) == 1};
}

TEST_P(LoraStacks, LanguageModelsEqualTheirMergedWeights) {
  seed_afresh();
  auto config = small_config();
  config.stack = GetParam().config;
  const bool adapts_head = config.stack.num_layers == 0 || draw(0, 3) == 0;
  config.tie_embeddings = draw(0, 1) == 1;
  const auto model = adapted_model(config, draw_options(adapts_head ? "head" : "decoder"));
  const auto tokens = torch::randint(11, {2, draw(1, 9)});
  const auto merged = [](const auto& exact, const Tensors& in) {
    return merged_copy(exact)->forward(in[0]);
  };
  auto copy = model;
  EXPECT_TRUE(equals_in_float64(copy(tokens), model, {tokens}, merged)) << "with gradients";
  const torch::NoGradGuard no_grad;
  copy->eval();
  EXPECT_TRUE(equals_in_float64(copy(tokens), model, {tokens}, merged)) << "without gradients";
  auto cache = copy->make_cache(2);
  std::vector<torch::Tensor> logits;
  for (const auto& token : tokens.split(1, 1)) logits.push_back(copy->step(token, cache));
  EXPECT_TRUE(equals_in_float64(torch::cat(logits, 1), model, {tokens}, merged)) << "with a cache";
}

TEST_P(LoraStacks, Seq2SeqsEqualTheirMergedWeights) {
  seed_afresh();
  Seq2SeqConfig config{.source_vocab_size = 9, .target_vocab_size = 11, .max_seq_len = 12};
  config.stack = GetParam().config;
  if (config.stack.num_layers == 0) return;  // has no layer to adapt but the head
  Seq2Seq model(config);
  add_lora(model, draw_options("transformer"));
  draw_adapters(model);
  const auto source = torch::randint(9, {2, 5}), target = torch::randint(11, {2, draw(1, 7)});
  const auto merged = [](const auto& exact, const Tensors& in) {
    return merged_copy(exact)->forward(in[0], in[1]);
  };
  EXPECT_TRUE(equals_in_float64(model(source, target), model, {source, target}, merged));
  const torch::NoGradGuard no_grad;
  model->eval();
  auto cache = model->make_cache(2);
  const auto memory = model->encode(source);
  std::vector<torch::Tensor> logits;
  for (const auto& token : target.split(1, 1)) logits.push_back(model->step(token, memory, cache));
  EXPECT_TRUE(equals_in_float64(torch::cat(logits, 1), model, {source, target}, merged));
}

TEST_P(LoraStacks, CheckpointedGradientsAreTheSame) {
  seed_afresh();
  auto config = small_config();
  config.stack = GetParam().config;
  if (config.stack.num_layers == 0) return;
  const auto options = draw_options("decoder");
  config.stack.gradient_checkpointing = false;
  const auto model = adapted_model(config, options);
  config.stack.gradient_checkpointing = true;
  const auto checkpointed = adapted_model(config, options);
  const auto from = model->named_parameters();
  const torch::Tensor tokens = torch::randint(11, {2, 7});
  {
    const torch::NoGradGuard no_grad;
    for (auto& each : checkpointed->named_parameters()) each.value().copy_(from[each.key()]);
  }
  for (auto each : {model, checkpointed}) each(tokens).pow(2).sum().backward();
  for (const auto& each : checkpointed->named_parameters()) {
    const auto& expected = from[each.key()].grad();
    ASSERT_EQ(each.value().grad().defined(), expected.defined()) << each.key();
    if (expected.defined()) {
      const auto bound = 1e-4 * (1 + expected.abs().max().item<double>());
      EXPECT_TRUE(close(each.value().grad(), expected, bound)) << each.key();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, LoraStacks, testing::ValuesIn(each_stack()), NameOfStack());

TEST(Lora, ClassifiersEqualTheirMergedWeights) {
  seed_afresh();
  SequenceClassifierConfig config{
      .vocab_size = 11, .num_classes = 3, .max_seq_len = 12, .pooler = true};
  config.stack.embed_dim = 8;
  SequenceClassifier model(config);
  add_lora(model, {.rank = 2, .targets = {"encoder", "pooler", "head"}});
  draw_adapters(model);
  const auto tokens = torch::randint(11, {2, 7});
  EXPECT_TRUE(equals_in_float64(
      model(tokens), model, {tokens},
      [](const auto& exact, const Tensors& in) { return merged_copy(exact)->forward(in[0]); }));
}

TEST(Lora, GenerationWithAdaptersEqualsGenerationWithMergedWeights) {
  seed_afresh();
  auto config = small_config();
  config.stack.positions = PositionScheme::rotary;
  auto model = adapted_model(config);
  model->eval();
  const GenerationOptions greedy{.max_new_tokens = 8, .sampling = {.temperature = 0.0}};
  auto merged = merged_copy(model);
  EXPECT_EQ(generate(model, {3, 5}, greedy).tokens, generate(merged, {3, 5}, greedy).tokens);
}

TEST(Lora, ClonesHaveTheAdapters) {
  auto model = adapted_model(small_config(), {.rank = 2, .dropout = 0.25});
  model->eval();
  const auto tokens = torch::randint(11, {2, 7});
  LanguageModel copy(std::dynamic_pointer_cast<LanguageModelImpl>(model->clone()));
  EXPECT_TRUE(copy(tokens).equal(model(tokens)));
  EXPECT_EQ(names_of_trained(*copy), names_of_trained(*model));
  draw_adapters(copy);  // changes no adapter of `model`
  EXPECT_FALSE(copy(tokens).equal(model(tokens)));
  const auto half = cast_copy(model, torch::kBFloat16);
  EXPECT_EQ(lora_adapters(half).front().adapter->B.dtype(), torch::kBFloat16);
  EXPECT_EQ(lora_adapters(half).front().adapter->options.dropout, 0.25);
}

TEST(Lora, SavedModulesHaveTheAdapters) {
  const auto model = adapted_model(small_config());
  std::stringstream file;
  torch::save(model, file);
  auto other = adapted_model(small_config());
  torch::load(other, file);
  const auto tokens = torch::randint(11, {2, 7});
  EXPECT_TRUE(other(tokens).equal(LanguageModel(model)(tokens)));
}

TEST(Lora, AreAPartOfThePrintedModule) {
  std::ostringstream text;
  text << adapted_model(small_config(), {.rank = 5});
  EXPECT_THAT(text.str(), testing::HasSubstr("attend::LoraAdapter(rank=5"));
}

TEST(Lora, MergedWeightsAreRoundedOnceAndUnmergedBitForBit) {
  seed_afresh();
  auto model = cast_copy(LanguageModel(small_config()), torch::kBFloat16);
  const auto original = cast_copy(model, torch::kBFloat16);  // a copy
  add_lora(model);
  draw_adapters(model);
  const auto names = model->named_parameters().keys();
  const auto weights_of = [](const torch::nn::Module& module) {
    std::map<std::string, torch::Tensor> weights;
    for (const auto& each : module.named_parameters()) weights[each.key()] = each.value();
    return weights;
  };
  const auto before = weights_of(*original);
  merge_lora(model);
  merge_lora(model);  // has no further effect
  for (const auto& each : lora_adapters(model)) {
    const auto& options = each.adapter->options;
    const auto rows = [&](const torch::Tensor& weight) {
      return weight.slice(0, options.first_row, options.first_row + options.rows);
    };
    const auto sum =
        rows(before.at(each.layer_name + ".weight")).to(torch::kFloat) + each.adapter->delta();
    EXPECT_TRUE(rows(each.layer->weight).equal(sum.to(torch::kBFloat16))) << each.prefix();
  }
  EXPECT_EQ(model->named_parameters().keys(), names);
  unmerge_lora(model);
  for (const auto& [name, weight] : before)
    EXPECT_TRUE(weights_of(*model).at(name).equal(weight)) << name;
  merge_lora(model);
  remove_lora(model);
  EXPECT_THAT(lora_adapters(model), IsEmpty());
  EXPECT_EQ(weights_of(*model).size(), before.size());
}

TEST(Lora, ClonesOfMergedModulesShareNoWeights) {
  auto model = adapted_model(small_config());
  merge_lora(model);
  LanguageModel copy(std::dynamic_pointer_cast<LanguageModelImpl>(model->clone()));
  unmerge_lora(model);
  unmerge_lora(copy);
  std::vector<torch::Tensor> weights;
  for (const auto& each : copy->parameters()) weights.push_back(each.detach().clone());
  const torch::NoGradGuard no_grad;
  for (auto& each : model->parameters()) each.add_(1.0);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(copy->parameters()[i].equal(weights[i])) << copy->named_parameters()[i].key();
}

TEST(Lora, MergedAndRemovedAdaptersLeaveAnOrdinaryModule) {
  seed_afresh();
  auto model = adapted_model(small_config());
  const auto tokens = torch::randint(11, {2, 7});
  const auto expected = model(tokens);
  merge_and_remove_lora(model);
  EXPECT_THAT(lora_adapters(model), IsEmpty());
  EXPECT_EQ(names_of_trained(*model), model->named_parameters().keys());
  EXPECT_TRUE(close(model(tokens), expected, 1e-4));
  freeze(model);
  merge_and_remove_lora(model);  // without adapters: no effect
  EXPECT_THAT(names_of_trained(*model), IsEmpty());
}

TEST(Lora, MergedModulesUseTheirAdaptersOnce) {
  seed_afresh();
  auto model = adapted_model(small_config());
  const auto tokens = torch::randint(11, {2, 7});
  merge_lora(model);
  EXPECT_TRUE(model(tokens).equal(merged_copy(model)(tokens)));
}

TEST(Lora, MergedWeightsReplaceQuantizedCopies) {
  seed_afresh();
  auto layer = new_linear({512, 384});
  add_lora_adapter(*layer, "lora", {.rank = 4});
  draw_adapters(layer);
  prepare_for_inference(*layer, WeightFormat::int8);
  merge_lora(layer);
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 512});
  EXPECT_TRUE(
      equals_in_float64(apply_linear(x, layer), {x, layer->weight, layer->bias},
                        [](const Tensors& in) { return torch::linear(in[0], in[1], in[2]); }));
}

TEST(Lora, AnAdapterOfATiedHeadUntiesItAndRemovingItTiesItAgain) {
  seed_afresh();
  const auto check = [](auto model, const torch::Tensor& embedding, const auto& forward) {
    const auto names = [&] { return model->named_parameters().keys(); };
    const auto before = names();
    const auto logits = forward(model);
    EXPECT_THAT(add_lora(model, {.rank = 2, .targets = {"head"}}), ElementsAre("head"));
    EXPECT_FALSE(model->config.tie_embeddings);
    EXPECT_EQ(model->head->weight.data_ptr(), embedding.data_ptr()) << "without a copy";
    EXPECT_THAT(names_of_trained(*model), ElementsAre("head.lora.A", "head.lora.B"));
    EXPECT_TRUE(forward(model).equal(logits));
    draw_adapters(model);
    const auto adapted = forward(model);
    EXPECT_FALSE(close(adapted, logits, 1e-3));
    const auto original = embedding.clone();
    merge_lora(model);
    EXPECT_TRUE(embedding.equal(original)) << "merging does not change the embedding";
    EXPECT_FALSE(model->head->weight.equal(embedding));
    unmerge_lora(model);
    EXPECT_TRUE(model->head->weight.equal(embedding));
    EXPECT_TRUE(forward(model).equal(adapted));
    auto copy = std::dynamic_pointer_cast<typename decltype(model)::ContainedType>(model->clone());
    for (auto* each : {copy.get(), model.ptr().get()}) {
      remove_lora(*each);
      EXPECT_TRUE(each->config.tie_embeddings);
      EXPECT_TRUE(each->head.is_empty());
      EXPECT_EQ(each->named_parameters().keys(), before);
    }
    EXPECT_TRUE(forward(model).equal(logits));
    add_lora(model, {.rank = 2, .targets = {"head", "out"}});
    draw_adapters(model);
    const auto again = forward(model);
    merge_and_remove_lora(model);
    EXPECT_FALSE(model->config.tie_embeddings) << "the merged head is a weight of its own";
    EXPECT_TRUE(model->named_parameters().contains("head.weight"));
    EXPECT_TRUE(close(forward(model), again, 1e-4));
  };
  LanguageModel decoder(small_config());
  decoder->eval();
  const auto tokens = torch::randint(11, {2, 7});
  check(decoder, decoder->embedding->token->weight,
        [&](LanguageModel& model) { return model(tokens); });
  Seq2Seq seq2seq(Seq2SeqConfig{
      .source_vocab_size = 9, .target_vocab_size = 11, .stack = small_config().stack});
  seq2seq->eval();
  const auto source = torch::randint(9, {2, 5});
  check(seq2seq, seq2seq->target_embedding->token->weight,
        [&](Seq2Seq& model) { return model(source, tokens); });
}

TEST(Lora, ATiedHeadIsATargetByItsOwnNameOnly) {
  struct Holder : torch::nn::Module {
    Holder() { register_module("lm", model); }
    LanguageModel model{small_config()};
  };
  Holder by_owner;
  EXPECT_EQ(add_lora(by_owner, {.targets = {"lm"}}).size(), 8);
  EXPECT_TRUE(by_owner.model->config.tie_embeddings);
  Holder by_name;
  EXPECT_THAT(add_lora(by_name, {.targets = {"lm.head"}}), ElementsAre("lm.head"));
}

TEST(Lora, SharedWeightsAreNotMerged) {
  torch::nn::Sequential twice;
  auto layer = new_linear({4, 4});
  twice->push_back("one", layer);
  struct Holds : torch::nn::Module {
    explicit Holds(const torch::Tensor& weight) { register_parameter("tied", weight); }
    torch::Tensor forward(const torch::Tensor& x) { return x; }
  };
  twice->push_back("other", std::make_shared<Holds>(layer->weight));
  add_lora(twice, {.targets = {"one"}});
  EXPECT_THAT([&] { merge_lora(twice); },
              throws_naming<c10::ValueError>("one.weight", "other.tied"));
}

/// Modules that call `layer(x)`, which does not know adapters.
struct ForeignModules : FixedSeed, testing::Test {
  torch::nn::Sequential net{torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::Linear(8, 3)};
  torch::Tensor x = torch::randn({5, 6});
};

TEST_F(ForeignModules, UseTheirAdaptersWhileAGuardExists) {
  const auto before = net->forward(x);
  EXPECT_THAT(add_lora(net, {.rank = 2, .targets = {"0", "2"}}), ElementsAre("0", "2"));
  draw_adapters(net);
  {
    const LoraWeightsGuard guard(net);
    const auto y = net->forward(x);
    EXPECT_FALSE(close(y, before, 1e-2));
    y.pow(2).sum().backward();
  }
  EXPECT_TRUE(net->forward(x).equal(before));
  const auto& weight = net->ptr<torch::nn::LinearImpl>(0)->weight;
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_FALSE(weight.grad().defined());

  // Gradients of the formula.
  const auto adapters = lora_adapters(net);
  ASSERT_EQ(adapters.size(), 2);
  const auto apply = [&](std::size_t i, const torch::Tensor& in) {
    return torch::linear(in, adapters[i].layer->weight, adapters[i].layer->bias) +
           adapters[i].adapter->forward(in);
  };
  const auto y = apply(1, apply(0, x).relu());
  {
    const LoraWeightsGuard guard(net);
    EXPECT_TRUE(close(net->forward(x), y, 1e-5));
  }
  for (const auto& each : adapters) {
    const auto expected =
        torch::autograd::grad({y.pow(2).sum()}, {each.adapter->A, each.adapter->B}, {}, true);
    EXPECT_TRUE(close(each.adapter->A.grad(), expected[0], 1e-4));
    EXPECT_TRUE(close(each.adapter->B.grad(), expected[1], 1e-4));
  }
}

TEST_F(ForeignModules, HaveTheSameWeightsUnderAutocast) {
  add_lora(net, {.rank = 2, .targets = {"0", "2"}});
  draw_adapters(net);
  const auto weight = [&] {
    const LoraWeightsGuard guard(net);
    return net->ptr<torch::nn::LinearImpl>(0)->weight.detach().clone();
  };
  const auto expected = weight();
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  EXPECT_TRUE(weight().equal(expected));
}

TEST_F(ForeignModules, GiveTheOutputsOfMergedWeights) {
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(12).dropout(0.0));
  add_lora(layer, {.rank = 2, .targets = {"linear1", "linear2", "out_proj"}});
  EXPECT_EQ(lora_adapters(layer).size(), 3);
  draw_adapters(layer);
  const auto in = torch::randn({4, 2, 8});
  torch::Tensor adapted;
  {
    const LoraWeightsGuard guard(layer);
    adapted = layer(in);
  }
  EXPECT_FALSE(close(adapted, layer(in), 1e-2));
  merge_lora(layer);
  EXPECT_TRUE(close(adapted, layer(in), 1e-5));
  {
    const LoraWeightsGuard guard(layer);  // leaves merged weights as they are
    EXPECT_TRUE(close(adapted, layer(in), 1e-5));
  }
  unmerge_lora(layer);
  EXPECT_FALSE(close(adapted, layer(in), 1e-2));
}

TEST_F(ForeignModules, AreCalledAgainByCheckpointWhileTheGuardExists) {
  add_lora(net, {.rank = 2, .targets = {"0", "2"}});
  draw_adapters(net);
  const auto gradients = [&](const auto& forward) {
    net->zero_grad();
    const LoraWeightsGuard guard(net);
    forward(x).pow(2).sum().backward();
    std::vector<torch::Tensor> all;
    for (const auto& each : lora_adapters(net)) {
      for (const auto& parameter : each.adapter->parameters())
        all.push_back(parameter.grad().clone());
    }
    return all;
  };
  const auto call = [this](const torch::Tensor& in) { return net->forward(in); };
  const auto expected = gradients(call);
  const auto found =
      gradients([&](const torch::Tensor& in) { return checkpoint(call, in, net->parameters()); });
  ASSERT_EQ(found.size(), 4);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-5));
}

TEST_F(ForeignModules, KeepAllWeightsIfOneCannotBeReplaced) {
  add_lora(net, {.rank = 2, .targets = {"0", "2"}});
  const auto adapters = lora_adapters(net);
  const auto before = net->forward(x);
  adapters[1].adapter->A.set_data(torch::zeros({2, 5}));  // of another width
  EXPECT_THROW(LoraWeightsGuard guard(net), c10::Error);
  for (const auto& each : adapters) {
    EXPECT_FALSE(each.adapter->in_weight) << each.layer_name;
    EXPECT_TRUE(each.layer->weight.is_same(each.layer->named_parameters(false)["weight"]))
        << each.layer_name;
  }
  EXPECT_TRUE(net->forward(x).equal(before));
}

TEST_F(ForeignModules, RefuseDropoutInTrainMode) {
  add_lora(net, {.rank = 2, .dropout = 0.25, .targets = {"0"}});
  EXPECT_THAT([&] { LoraWeightsGuard guard(net); },
              throws_naming<c10::ValueError>("0", "dropout", "0.25"));
  net->eval();
  EXPECT_NO_THROW(LoraWeightsGuard guard(net));
}

TEST_F(ForeignModules, CallApplyLinearWithAndWithoutAGuard) {
  torch::nn::Linear layer(6, 4);  // of LibTorch
  add_lora_adapter(*layer, "lora", {.rank = 2});
  draw_adapters(layer);
  const auto y = apply_linear(x, layer);
  const LoraWeightsGuard guard(layer);
  EXPECT_TRUE(close(apply_linear(x, layer), y, 1e-5));
}

}  // namespace
}  // namespace attend
