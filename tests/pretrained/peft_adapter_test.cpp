// Tests of adapters in the format of PEFT. tests/transformers compares them with PEFT.
#include "attend/pretrained/peft_adapter.h"

#include "attend/input_error.h"
#include "attend/nn/freezing.h"
#include "attend/nn/lora.h"
#include "pretrained/adapter_config.h"
#include "support/pretrained_folder.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

using Weights = std::map<std::string, torch::Tensor>;

constexpr const char* kQuery = "base_model.model.model.layers.0.self_attn.q_proj.";
constexpr const char* kDown = "base_model.model.model.layers.1.mlp.down_proj.";

struct PeftAdapter : FixedSeed, testing::Test {
  TemporaryDirectory directory;
  fs::path base = directory.path() / "base";
  fs::path folder = directory.path() / "adapter";
  fs::path saved = directory.path() / "saved";

  void write_base(const json& config) const { write_pretrained(base, config, weights_of(config)); }
  void write_adapter(const json& config, const Weights& weights) const {
    fs::create_directories(folder);
    replace_file(folder / "adapter_config.json", config.dump());
    save_safetensors(folder / "adapter_model.safetensors", {.tensors = weights});
  }
  /// An adapter of two linear layers of a small Llama.
  json config() const {
    return {{"peft_type", "LORA"},
            {"base_model_name_or_path", base.string()},
            {"r", 2},
            {"lora_alpha", 6},
            {"target_modules", {"layers.0.self_attn.q_proj", "layers.1.mlp.down_proj"}}};
  }
  static Weights weights() {
    return {{std::string(kQuery) + "lora_A.weight", torch::randn({2, 8})},
            {std::string(kQuery) + "lora_B.weight", torch::randn({8, 2})},
            {std::string(kDown) + "lora_A.weight", torch::randn({2, 12})},
            {std::string(kDown) + "lora_B.weight", torch::randn({8, 2})}};
  }
  Weights merged() const {
    const auto adapted = load_pretrained(folder);
    merge_lora(module_of(adapted.model));
    remove_lora(module_of(adapted.model));
    return state_dict(module_of(adapted.model));
  }
  auto loading() const {
    return [this] { load_pretrained(folder); };
  }
};

TEST_F(PeftAdapter, AdaptsRowsOfTheJointProjection) {
  const torch::NoGradGuard no_grad;
  write_base(small_config("llama"));
  const auto tensors = weights();
  write_adapter(config(), tensors);
  auto expected = state_dict(module_of(load_pretrained(base).model));
  const auto delta = [&](const std::string& name) {
    return 3.0 * tensors.at(name + "lora_B.weight").mm(tensors.at(name + "lora_A.weight"));
  };
  expected.at("decoder.blocks.0.attention.qkv.weight").slice(0, 0, 8) += delta(kQuery);
  expected.at("decoder.blocks.1.feed_forward.down.weight") += delta(kDown);
  const auto found = merged();
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(found.at(name).allclose(tensor, 1e-5, 1e-6)) << name;
}

TEST_F(PeftAdapter, ReordersTheRowsOfGptNeox) {
  const torch::NoGradGuard no_grad;
  auto neox = small_config("gpt_neox");
  neox["rotary_pct"] = 0.5;
  write_base(neox);
  const std::string name = "base_model.model.gpt_neox.layers.1.attention.query_key_value.";
  const auto a = torch::randn({2, 8});
  const auto b = torch::randn({24, 2});
  auto options = config();
  options["target_modules"] = {"query_key_value"};
  Weights tensors;
  for (const char* layer : {"0", "1"}) {
    auto other = name;
    other.replace(other.find("layers.") + 7, 1, layer);
    tensors[other + "lora_A.weight"] = a;
    tensors[other + "lora_B.weight"] = b;
  }
  write_adapter(options, tensors);
  auto published = load_safetensors(base / "model.safetensors").tensors;
  const auto before = state_dict(module_of(load_pretrained(base).model));
  published.at("layers.1.attention.query_key_value.weight") += 3.0 * b.mm(a);
  save_safetensors(base / "model.safetensors", {.tensors = published});
  const auto expected = state_dict(module_of(load_pretrained(base).model));
  published.at("layers.1.attention.query_key_value.weight") -= 3.0 * b.mm(a);
  save_safetensors(base / "model.safetensors", {.tensors = published});
  const auto* weight = "decoder.blocks.1.attention.qkv.weight";
  EXPECT_FALSE(before.at(weight).allclose(expected.at(weight)));
  EXPECT_TRUE(merged().at(weight).allclose(expected.at(weight), 1e-5, 1e-6));
}

TEST_F(PeftAdapter, DoesNotTransposeConv1D) {
  const torch::NoGradGuard no_grad;
  write_base(small_config("gpt2"));
  const std::string name = "base_model.model.transformer.h.0.attn.c_proj.";
  const auto a = torch::randn({2, 8});
  const auto b = torch::randn({8, 2});
  auto options = config();
  options["target_modules"] = "transformer\\.h\\.0\\.attn\\.c_proj";
  options["fan_in_fan_out"] = true;
  write_adapter(options, {{name + "lora_A.weight", a}, {name + "lora_B.weight", b}});
  const auto* weight = "decoder.blocks.0.attention.out.weight";
  const auto before = state_dict(module_of(load_pretrained(base).model)).at(weight);
  EXPECT_TRUE(merged().at(weight).allclose(before + 3.0 * b.mm(a), 1e-5, 1e-6));
}

TEST_F(PeftAdapter, RanksAndFactorsFollowPatterns) {
  write_base(small_config("llama"));
  auto tensors = weights();
  tensors[std::string(kDown) + "lora_A.weight"] = torch::randn({4, 12});
  tensors[std::string(kDown) + "lora_B.weight"] = torch::randn({8, 4});
  auto options = config();
  options["use_rslora"] = true;
  options["rank_pattern"] = {{"mlp\\..*", 4}};
  options["alpha_pattern"] = {{"^model.layers.1.mlp.down_proj", 10.0}, {"self_attn.k_proj", 3}};
  write_adapter(options, tensors);
  const auto adapted = load_pretrained(folder);
  std::map<std::string, std::pair<int64_t, double>> found;
  for (const auto& each : lora_adapters(module_of(adapted.model)))
    found[each.prefix()] = {each.adapter->options.rank, each.adapter->options.scale()};
  EXPECT_THAT(found,
              UnorderedElementsAre(Pair("decoder.blocks.0.attention.qkv.lora_query.",
                                        Pair(2, testing::DoubleEq(6.0 / std::sqrt(2.0)))),
                                   Pair("decoder.blocks.1.feed_forward.down.lora.", Pair(4, 5.0))));
  options["rank_pattern"]["down_proj"] = 3;
  write_adapter(options, tensors);
  EXPECT_THAT(loading(), throws_naming<InputError>("rank_pattern", "3", "4", "down_proj"));
}

TEST_F(PeftAdapter, OnlyAdaptersAreTrainable) {
  write_base(small_config("llama"));
  write_adapter(config(), weights());
  const auto adapted = load_pretrained(folder);
  for (const auto& item : module_of(adapted.model).named_parameters())
    EXPECT_EQ(item.value().requires_grad(), item.key().find(".lora") != std::string::npos);
}

TEST_F(PeftAdapter, UnsupportedKeysAreNamed) {
  write_base(small_config("llama"));
  const std::vector<std::pair<const char*, json>> keys{{"use_dora", true},
                                                       {"bias", "all"},
                                                       {"bias", "lora_only"},
                                                       {"modules_to_save", {"lm_head"}},
                                                       {"modules_to_save", {"self_attn"}},
                                                       {"init_lora_weights", "pissa"},
                                                       {"init_lora_weights", "olora"},
                                                       {"init_lora_weights", "mica"},
                                                       {"peft_type", "LOHA"},
                                                       {"layer_replication", {{0, 1}}},
                                                       {"trainable_token_indices", {1}},
                                                       {"target_parameters", {"experts.w1"}},
                                                       {"lora_bias", true},
                                                       {"use_qalora", true},
                                                       {"megatron_config", {{"a", 1}}},
                                                       {"some_new_key", 3},
                                                       {"r", 0},
                                                       {"r", "8"},
                                                       {"lora_alpha", 0},
                                                       {"lora_dropout", 1.0},
                                                       {"rank_pattern", {{"q_proj", 0}}},
                                                       {"alpha_pattern", {{"(", 1}}},
                                                       {"target_modules", "(q_proj"},
                                                       {"target_modules", {"k_proj"}}};
  for (const auto& [key, value] : keys) {
    SCOPED_TRACE(fmt::format("{}: {}", key, value.dump()));
    auto options = config();
    options[key] = value;
    write_adapter(options, weights());
    EXPECT_THAT(loading(), throws_naming<InputError>("adapter", std::string(key)));
  }
  auto options = config();
  for (const char* key : {"some_new_key", "use_dora", "layer_replication", "loftq_config"})
    options[key] = key == std::string("use_dora") ? json(false) : json();
  options["init_lora_weights"] = "gaussian";
  write_adapter(options, weights());
  EXPECT_NO_THROW(loading()());
}

TEST_F(PeftAdapter, OtherTensorsAreNamed) {
  write_base(small_config("llama"));
  const auto with = [&](const std::string& name, const torch::Tensor& tensor) {
    auto tensors = weights();
    tensors[name] = tensor;
    write_adapter(config(), tensors);
    return loading();
  };
  const auto a = std::string(kQuery) + "lora_A.weight";
  const auto file = (folder / "adapter_model.safetensors").string();
  EXPECT_THAT(with(a, torch::randn({3, 8})),
              throws_naming<InputError>(file, a, "(3, 8)", "(2, 8)"));
  EXPECT_THAT(with(a, torch::ones({2, 8}, torch::kInt)), throws_naming<InputError>(file, a, "I32"));
  for (const char* name :
       {"base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.base_layer.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.0.self_attn.q_proj.bias", "model.layers.0.x"}) {
    EXPECT_THAT(with(name, torch::randn({2, 8})), throws_naming<InputError>(file, name));
  }
  auto tensors = weights();
  tensors.erase(std::string(kQuery) + "lora_B.weight");
  write_adapter(config(), tensors);
  EXPECT_THAT(loading(), throws_naming<InputError>(file, "lora_B.weight"));
  tensors.erase(a);
  write_adapter(config(), tensors);
  EXPECT_THAT(loading(), throws_naming<InputError>(file, "lora_A.weight"));
}

TEST_F(PeftAdapter, BaseIsNamed) {
  write_base(small_config("llama"));
  write_adapter(config(), weights());
  EXPECT_TRUE(is_pretrained(folder));
  fs::rename(base, directory.path() / "moved");
  EXPECT_THAT(loading(),
              throws_naming<InputError>((folder / "adapter_config.json").string(), base.string()));
  auto options = config();
  options["base_model_name_or_path"] = nullptr;
  write_adapter(options, weights());
  EXPECT_THAT(loading(), throws_naming<InputError>("base_model_name_or_path"));
  options["base_model_name_or_path"] = "../moved";  // seen from the adapter
  write_adapter(options, weights());
  EXPECT_NO_THROW(loading()());
}

TEST_F(PeftAdapter, ModelsThatAreNotAdaptersAreSavedAfterMerging) {
  write_base(small_config("llama"));
  write_adapter(config(), weights());
  const auto adapted = load_pretrained(folder);
  EXPECT_THAT([&] { save_pretrained(adapted, saved); }, throws_naming<InputError>("llama"));
  EXPECT_THAT([&] { save_peft_adapter(load_pretrained(base), saved); },
              testing::Throws<InputError>());
  EXPECT_FALSE(fs::exists(saved));
}

TEST_F(PeftAdapter, SavedAdapterIsReadAgain) {
  write_base(small_config("llama"));
  const auto tensors = weights();
  write_adapter(config(), tensors);
  save_peft_adapter(load_pretrained(folder), saved, {.base = base.string()});
  const auto found = load_safetensors(saved / "adapter_model.safetensors").tensors;
  EXPECT_EQ(found.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(found.at(name).equal(tensor)) << name;
  const auto options = json::parse(read_bytes(saved / "adapter_config.json"));
  EXPECT_EQ(options.at("r"), 2);
  EXPECT_EQ(options.at("lora_alpha"), 6.0);
  EXPECT_EQ(options.at("base_model_name_or_path"), base.string());
  EXPECT_THAT(options.at("target_modules").get<std::vector<std::string>>(),
              ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"));
}

TEST_F(PeftAdapter, AdaptersOfFusedProjectionBecomeOne) {
  for (const char* type : {"gpt2", "gpt_neox"}) {
    for (const bool rslora : {false, true}) {
      SCOPED_TRACE(type);
      auto published = small_config(type);
      if (type == std::string("gpt_neox")) published["rotary_pct"] = 0.5;
      write_base(published);
      const auto model = load_pretrained(base);
      auto& module = module_of(model.model);
      add_lora(module, {.rank = 3, .alpha = 5, .targets = {"query", "value"}, .rslora = rslora});
      module.eval();
      const torch::NoGradGuard no_grad;
      for (const auto& each : lora_adapters(module)) each.adapter->B.normal_();
      fs::remove_all(saved);
      save_peft_adapter(model, saved, {.base = base.string()});
      const auto options = json::parse(read_bytes(saved / "adapter_config.json"));
      EXPECT_EQ(options.at("r"), 6);
      EXPECT_THAT(options.at("target_modules"), SizeIs(1));
      EXPECT_EQ(options.at("fan_in_fan_out"), type == std::string("gpt2"));
      const auto again = load_pretrained(saved);
      for (const auto* each : {&model, &again}) {
        merge_lora(module_of(each->model));
        remove_lora(module_of(each->model));
      }
      const auto expected = state_dict(module);
      for (const auto& [name, tensor] : state_dict(module_of(again.model)))
        EXPECT_TRUE(tensor.allclose(expected.at(name), 1e-5, 1e-5)) << name;
    }
  }
}

TEST_F(PeftAdapter, HeadOfAClassifierIsPartOfTheAdapter) {
  auto bert = small_config("bert");
  bert["architectures"] = {"BertForSequenceClassification"};
  bert["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  write_base(bert);
  const std::string name = "base_model.model.bert.encoder.layer.1.attention.self.value.";
  auto options = config();
  options["target_modules"] = {"layer.1.attention.self.value"};
  options["modules_to_save"] = {"classifier", "score"};
  Weights tensors{{name + "lora_A.weight", torch::randn({2, 8})},
                  {name + "lora_B.weight", torch::randn({8, 2})},
                  {"base_model.model.classifier.weight", torch::randn({3, 8})},
                  {"base_model.model.classifier.bias", torch::randn({3})}};
  write_adapter(options, tensors);
  const auto adapted = load_pretrained(folder);
  auto& model = std::get<SequenceClassifier>(adapted.model);
  EXPECT_TRUE(model->head->weight.equal(tensors.at("base_model.model.classifier.weight")));
  EXPECT_TRUE(model->head->bias.requires_grad());
  EXPECT_FALSE(model->pooler->weight.requires_grad());
  save_peft_adapter(adapted, saved, {.base = base.string()});
  const auto found = load_safetensors(saved / "adapter_model.safetensors").tensors;
  for (const auto& [key, tensor] : tensors) EXPECT_TRUE(found.at(key).equal(tensor)) << key;
  tensors.erase("base_model.model.classifier.bias");
  write_adapter(options, tensors);
  EXPECT_THAT(loading(), throws_naming<InputError>("classifier.bias"));
}

/// An adapter of a head that is tied to the embedding. PEFT also writes the weight of the head.
struct PeftTiedHead : PeftAdapter {
  PeftTiedHead() {
    auto llama = small_config("llama");
    llama["tie_word_embeddings"] = true;
    write_base(llama);
    options["target_modules"] = {"lm_head"};
    embedding = load_safetensors(base / "model.safetensors").tensors.at("embed_tokens.weight");
    tensors = {{"base_model.model.lm_head.lora_A.weight", torch::randn({2, 8})},
               {"base_model.model.lm_head.lora_B.weight", torch::randn({20, 2})},
               {kWeight, embedding}};
  }

  static constexpr const char* kWeight = "base_model.model.lm_head.base_layer.weight";
  json options = config();
  torch::Tensor embedding;
  Weights tensors;
};

TEST_F(PeftTiedHead, IsUntiedAndMergedIntoItsOwnWeight) {
  const torch::NoGradGuard no_grad;
  for (const bool has_weight : {true, false}) {
    if (!has_weight) tensors.erase(kWeight);
    write_adapter(options, tensors);
    const auto adapted = load_pretrained(folder);
    const auto& model = std::get<LanguageModel>(adapted.model);
    EXPECT_FALSE(model->config.tie_embeddings);
    EXPECT_TRUE(model->head->weight.equal(embedding));
    merge_and_remove_lora(model);
    fs::remove_all(saved);
    save_pretrained(adapted, saved);
    EXPECT_EQ(json::parse(read_bytes(saved / "config.json")).at("tie_word_embeddings"), false);
    const auto found = load_safetensors(saved / "model.safetensors").tensors;
    EXPECT_TRUE(found.at("model.embed_tokens.weight").equal(embedding));
    const auto delta = 3.0 * tensors.at("base_model.model.lm_head.lora_B.weight")
                                 .mm(tensors.at("base_model.model.lm_head.lora_A.weight"));
    EXPECT_TRUE(found.at("lm_head.weight").allclose(embedding + delta, 1e-5, 1e-6));
  }
}

TEST_F(PeftTiedHead, IsTiedAgainWithoutTheAdapter) {
  write_adapter(options, tensors);
  const auto adapted = load_pretrained(folder);
  remove_lora(module_of(adapted.model));
  save_pretrained(adapted, saved);
  EXPECT_EQ(json::parse(read_bytes(saved / "config.json")).at("tie_word_embeddings"), true);
  EXPECT_FALSE(load_safetensors(saved / "model.safetensors").tensors.contains("lm_head.weight"));
}

TEST_F(PeftTiedHead, AnotherWeightOfTheBaseIsRefused) {
  tensors[kWeight] = torch::randn({20, 8});
  write_adapter(options, tensors);
  auto model = load_pretrained(base);
  EXPECT_THAT([&] { load_peft_adapter(model, folder); },
              throws_naming<InputError>((folder / "adapter_model.safetensors").string(),
                                        "lm_head.base_layer.weight"));
  EXPECT_TRUE(std::get<LanguageModel>(model.model)->config.tie_embeddings) << "unchanged";
}

TEST_F(PeftTiedHead, AnAdapterOfOtherLayersKeepsTheTie) {
  write_adapter(config(), weights());
  const auto adapted = load_pretrained(folder);
  EXPECT_TRUE(std::get<LanguageModel>(adapted.model)->config.tie_embeddings);
}

/// An adapter of a classifier, and the weights of its head, as PEFT writes them.
struct PeftHead : PeftAdapter {
  Weights head;

  void write(const std::string& model_type, int64_t num_classes) {
    write_base(small_config(model_type));  // an encoder without pooler and head
    const auto prefix = "base_model.model." + model_type + ".";
    const auto module = "encoder.layer.1.attention.self.value";
    auto options = config();
    options["task_type"] = "SEQ_CLS";
    options["target_modules"] = {module};
    options["modules_to_save"] = {"classifier", "score"};
    if (model_type == "bert") {
      head = {{"classifier.weight", torch::randn({num_classes, 8})},
              {"classifier.bias", torch::randn({num_classes})}};
      auto weights = weights_of(small_config("bert"));  // the pooler is part of a BertModel
      weights["pooler.dense.weight"] = torch::randn({8, 8});
      weights["pooler.dense.bias"] = torch::randn({8});
      write_pretrained(base, small_config("bert"), weights);
    } else {
      head = {{"classifier.dense.weight", torch::randn({8, 8})},
              {"classifier.dense.bias", torch::randn({8})},
              {"classifier.out_proj.weight", torch::randn({num_classes, 8})},
              {"classifier.out_proj.bias", torch::randn({num_classes})}};
    }
    Weights tensors{{prefix + module + ".lora_A.weight", torch::randn({2, 8})},
                    {prefix + module + ".lora_B.weight", torch::randn({8, 2})}};
    for (const auto& [name, tensor] : head) tensors["base_model.model." + name] = tensor;
    write_adapter(options, tensors);
  }
};

TEST_F(PeftHead, BaseWithoutHeadGetsThatOfTheAdapter) {
  for (const char* type : {"bert", "roberta"}) {
    SCOPED_TRACE(type);
    write(type, 3);
    const auto adapted = load_pretrained(folder);
    const auto& model = std::get<SequenceClassifier>(adapted.model);
    EXPECT_EQ(model->config.num_classes, 3);
    EXPECT_EQ(model->config.pooling, Pooling::first);
    EXPECT_THAT(adapted.classes, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
    const bool is_bert = type == std::string("bert");
    const char* out = is_bert ? "classifier.weight" : "classifier.out_proj.weight";
    EXPECT_TRUE(model->head->weight.equal(head.at(out)));
    const auto pooler =
        is_bert ? load_safetensors(base / "model.safetensors").tensors.at("pooler.dense.weight")
                : head.at("classifier.dense.weight");
    EXPECT_TRUE(model->pooler->weight.equal(pooler));
    EXPECT_THAT(lora_adapters(model), SizeIs(1));

    fs::remove_all(saved);  // is read again
    save_peft_adapter(adapted, saved, {.base = base.string()});
    const auto again = load_pretrained(saved);
    const auto expected = state_dict(model);
    for (const auto& [name, tensor] : state_dict(module_of(again.model)))
      EXPECT_TRUE(tensor.equal(expected.at(name))) << name;

    merge_lora(model);  // is a classifier of transformers
    remove_lora(model);
    fs::remove_all(saved);
    save_pretrained(adapted, saved);
    EXPECT_THAT(json::parse(read_bytes(saved / "config.json")).at("architectures"),
                ElementsAre(is_bert ? "BertForSequenceClassification"
                                    : "RobertaForSequenceClassification"));
  }
}

TEST_F(PeftHead, MissingPartsOfTheHeadAreNamed) {
  write("roberta", 2);
  const auto file = folder / "adapter_model.safetensors";
  const auto tensors = load_safetensors(file).tensors;
  for (const char* name : {"classifier.dense.weight", "classifier.out_proj.bias"}) {
    auto some = tensors;
    some.erase(std::string("base_model.model.") + name);
    save_safetensors(file, {.tensors = some});
    EXPECT_THAT(loading(), throws_naming<InputError>(name));
  }
  auto wide = tensors;  // no number of classes follows from it
  wide["base_model.model.classifier.out_proj.weight"] = torch::zeros({1000000000, 0});
  save_safetensors(file, {.tensors = wide});
  EXPECT_THAT(loading(), throws_naming<InputError>(file.string()));
}

TEST_F(PeftHead, ModelWithoutHeadRefusesIt) {
  write("bert", 3);
  auto encoder = load_pretrained(base);
  EXPECT_THAT([&] { load_peft_adapter(encoder, folder); },
              throws_naming<InputError>((folder / "adapter_model.safetensors").string(),
                                        "base_model.model.classifier.bias"));
  EXPECT_THAT(lora_adapters(module_of(encoder.model)), IsEmpty());
}

TEST_F(PeftAdapter, ModelWithAdaptersIsUnchanged) {
  write_base(small_config("llama"));
  write_adapter(config(), weights());
  auto model = load_pretrained(base);
  add_lora(module_of(model.model), {.rank = 3, .targets = {"down"}});
  unfreeze(module_of(model.model));
  EXPECT_THAT([&] { load_peft_adapter(model, folder); },
              throws_naming<InputError>(folder.string()));
  EXPECT_THAT(lora_adapters(module_of(model.model)), SizeIs(2));
  for (const auto& each : module_of(model.model).named_parameters())
    EXPECT_TRUE(each.value().requires_grad()) << each.key();
}

}  // namespace
}  // namespace attend
