// Tests of load_pretrained. tests/transformers compares all architectures with Hugging Face.
#include "attend/input_error.h"
#include "attend/models/generation.h"
#include "attend/pretrained/pretrained.h"
#include "support/close.h"
#include "support/pretrained_folder.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <sys/stat.h>

namespace attend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct LoadPretrained : FixedSeed, testing::Test {
  TemporaryDirectory directory;
  fs::path folder = directory.path() / "model";

  Pretrained load(const json& config, const std::map<std::string, torch::Tensor>& weights) const {
    write_pretrained(folder, config, weights);
    return load_pretrained(folder);
  }
  Pretrained load(const json& config) const { return load(config, weights_of(config)); }
  const StackConfig& stack_of(const json& config) {
    loaded = load(config).model;
    return std::get<LanguageModel>(*loaded)->config.stack;
  }
  std::optional<Model> loaded;
};

std::map<std::string, torch::Tensor> state_of(const Pretrained& pretrained) {
  return state_dict(module_of(pretrained.model));
}

TEST_F(LoadPretrained, TransposesSquareMatricesOfConv1D) {
  const auto config = small_config("gpt2");
  const auto weights = weights_of(config);
  const auto state = state_of(load(config, weights));
  EXPECT_TRUE(state.at("decoder.blocks.1.attention.out.weight")
                  .equal(weights.at("h.1.attn.c_proj.weight").t()));
  EXPECT_TRUE(
      state.at("decoder.blocks.1.attention.out.bias").equal(weights.at("h.1.attn.c_proj.bias")));
}

TEST_F(LoadPretrained, AcceptsPrefixesOldNamesAndConstants) {
  const auto config = small_config("bert");
  const auto weights = weights_of(config);
  const auto expected = state_of(load(config, weights));
  std::map<std::string, torch::Tensor> renamed{{"bert.embeddings.position_ids", torch::arange(16)},
                                               {"bert.pooler.dense.weight", torch::randn({8, 8})},
                                               {"cls.predictions.bias", torch::randn({20})}};
  for (const auto& [old, tensor] : weights) {
    auto name = old;
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    renamed.emplace("module.bert." + name, tensor);
  }
  for (const auto& [name, tensor] : state_of(load(config, renamed)))
    EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
}

TEST_F(LoadPretrained, SkipsThePositionsOfPaddingOfRoberta) {
  auto config = small_config("roberta");
  const auto weights = weights_of(config);
  const auto pretrained = load(config, weights);
  EXPECT_EQ(std::get<SequenceClassifier>(pretrained.model)->config.max_seq_len, 14);
  EXPECT_TRUE(state_of(pretrained)
                  .at("embedding.position.weight")
                  .equal(weights.at("embeddings.position_embeddings.weight").slice(0, 2)));
}

TEST_F(LoadPretrained, AcceptsMasksOfIntegersThatTheModelDoesNotUse) {
  const auto config = small_config("gpt2");
  auto weights = weights_of(config);
  weights["h.0.attn.bias"] = torch::ones({1, 1, 16, 16}, torch::kByte);
  EXPECT_EQ(load(config, weights).model_type, "gpt2");
}

TEST_F(LoadPretrained, AddsOneToTheNormsOfGemma) {
  const auto config = small_config("gemma2");
  const auto weights = weights_of(config);
  EXPECT_TRUE(state_of(load(config, weights))
                  .at("decoder.norm.weight")
                  .equal(weights.at("norm.weight") + 1));
}

TEST_F(LoadPretrained, DoesNotRoundTheNormsOfGemmaToTheDtypeOfTheModel) {
  const auto config = small_config("gemma2");
  auto weights = weights_of(config);
  for (auto& [name, weight] : weights) weight = (0.01 * weight).to(torch::kBFloat16);
  write_pretrained(folder, config, weights);
  auto pretrained = load_pretrained(folder, {.dtype = torch::kBFloat16});
  const auto expected = weights.at("norm.weight").to(torch::kFloat) + 1;
  auto& model = std::get<LanguageModel>(pretrained.model);
  const auto& norm = model->decoder->norm.get<RMSNorm>();
  EXPECT_TRUE(norm->weight.equal(expected));
  EXPECT_EQ(model->forward(torch::tensor({3, 4})).scalar_type(), torch::kBFloat16);
  save_pretrained(pretrained, directory / "saved");
  const auto saved = load_safetensors(directory / "saved/model.safetensors").tensors;
  EXPECT_TRUE(saved.at("model.norm.weight").equal(weights.at("norm.weight")));
}

TEST_F(LoadPretrained, ReadsRotaryScalingOfBothVersions) {
  const json scaling{{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8}};
  auto version4 = small_config("llama");
  version4["rope_theta"] = 500000.0;
  version4["rope_scaling"] = scaling;
  auto version5 = small_config("llama");
  version5["rope_parameters"] = scaling;
  version5["rope_parameters"]["rope_theta"] = 500000.0;
  const RotaryOptions expected{.theta = 500000.0,
                               .scaling = RotaryScaling::llama3,
                               .factor = 8.0,
                               .original_max_seq_len = 8};
  EXPECT_EQ(stack_of(version4).rotary, expected);
  EXPECT_EQ(stack_of(version5).rotary, expected);
  version5["rope_scaling"] = json::object();
  EXPECT_EQ(stack_of(version5).rotary, expected);
  version4["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(stack_of(version4).rotary.scaling, RotaryScaling::linear);
  version4["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 2.0}};
  EXPECT_EQ(stack_of(version4).rotary.original_max_seq_len, 16);  // max_position_embeddings
  version4["original_max_position_embeddings"] = 4;
  EXPECT_EQ(stack_of(version4).rotary.original_max_seq_len, 4);
}

TEST_F(LoadPretrained, RefusesAPartialRotationThatTransformersIgnores) {
  for (const char* type : {"llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma2"}) {
    SCOPED_TRACE(type);
    auto config = small_config(type);
    const auto weights = weights_of(config);
    const auto expect_refusal = [&](const char* key) {
      EXPECT_THAT([&] { load(config, weights); },
                  throws_naming<InputError>("config.json", key, "0.5", "1.0"));
    };
    config["partial_rotary_factor"] = 0.5;
    expect_refusal("`partial_rotary_factor`");
    config["partial_rotary_factor"] = 1;
    EXPECT_EQ(stack_of(config).rotary.rotary_dim, 0);
    config["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
    expect_refusal("`rope_parameters.partial_rotary_factor`");
  }
  auto phi3 = small_config("phi3");
  phi3["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(stack_of(phi3).rotary.rotary_dim, 2);
}

TEST_F(LoadPretrained, AbsentKeysHaveTheDefaultsOfTheClass) {
  EXPECT_EQ(stack_of(small_config("llama")).rotary.theta, 1e4);
  EXPECT_EQ(stack_of(small_config("mixtral")).rotary.theta, 1e6);
  EXPECT_EQ(stack_of(small_config("mistral")).sliding_window, 4096);
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    auto config = small_config(type);
    config["num_key_value_heads"] = nullptr;
    EXPECT_EQ(stack_of(config).num_kv_heads, 2) << type;
  }
  auto gemma = small_config("gemma2");
  gemma.erase("head_dim");
  EXPECT_EQ(stack_of(gemma).head_dim, 256);
  gemma["final_logit_softcapping"] = nullptr;
  load(gemma);
  EXPECT_EQ(std::get<LanguageModel>(load(gemma).model)->config.final_logit_soft_cap, 0.0);
}

TEST_F(LoadPretrained, ReadsBothNamesOfTheRotaryOptionsOfGptNeox) {
  auto config = small_config("gpt_neox");
  config.erase("head_dim");
  config.erase("num_key_value_heads");
  config["rotary_emb_base"] = 20000;
  config["rotary_pct"] = 0.5;
  const auto weights = weights_of(config);
  EXPECT_EQ(stack_of(config).rotary, (RotaryOptions{.theta = 20000.0, .rotary_dim = 2}));
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  config["rope_theta"] = 20000.0;
  EXPECT_EQ(stack_of(config).rotary, (RotaryOptions{.theta = 20000.0, .rotary_dim = 2}));
  config["rope_parameters"]["rope_theta"] = 30000.0;
  EXPECT_THAT([&] { load(config, weights); },
              throws_naming<InputError>("config.json", "rotary_emb_base", "20000", "30000",
                                        "rope_parameters.rope_theta"));
  config.erase("rotary_emb_base");
  config["rope_theta"] = 30000.0;
  EXPECT_EQ(stack_of(config).rotary.theta, 30000.0);
  config["rope_parameters"] = nullptr;  // transformers does not read rope_theta, and takes 10000
  EXPECT_THAT([&] { load(config, weights); },
              throws_naming<InputError>("config.json", "rope_theta", "30000.0", "10000"));
  config.erase("rope_theta");
  config["partial_rotary_factor"] = 0.75;
  EXPECT_THAT([&] { load(config, weights); },
              throws_naming<InputError>("partial_rotary_factor", "0.75", "0.5", "rotary_pct"));
}

TEST_F(LoadPretrained, NamesTheKeyOfTheNumberOfRotatedChannels) {
  auto config = small_config("gpt_neox");  // heads of 4 channels
  config.erase("head_dim");
  config.erase("num_key_value_heads");
  config["rotary_pct"] = 1.0;
  const auto weights = weights_of(config);
  for (const auto& [part, channels] :
       std::vector<std::pair<double, std::string>>{{0.75, "3"}, {0.2, "0"}, {1.5, "6"}}) {
    config["rotary_pct"] = part;
    EXPECT_THAT([&] { load(config, weights); },
                throws_naming<InputError>("config.json", "rotary_pct", "hidden_size",
                                          "num_attention_heads", "which are " + channels));
  }
}

TEST_F(LoadPretrained, ReadsTheActivationOfGemmaLikeTransformers) {
  auto config = small_config("gemma2");
  config["hidden_act"] = "silu";
  EXPECT_EQ(std::get<Activation>(stack_of(config).activation), Activation::geglu_tanh);
  config["hidden_activation"] = "gelu";
  EXPECT_EQ(std::get<Activation>(stack_of(config).activation), Activation::geglu);
}

TEST_F(LoadPretrained, UsesTheWindowsOfQwen2OnlyInTheirLayers) {
  auto config = small_config("qwen2");
  config.erase("head_dim");
  config["sliding_window"] = 4;
  EXPECT_EQ(stack_of(config).sliding_window, 0);
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  EXPECT_THAT(stack_of(config).sliding_window_pattern, ElementsAre(0, 4));
  config["layer_types"] = {"sliding_attention", "full_attention"};
  EXPECT_THAT(stack_of(config).sliding_window_pattern, ElementsAre(4, 0));
}

TEST_F(LoadPretrained, CollectsStopTokensOfAllFiles) {
  auto config = small_config("llama");
  config["eos_token_id"] = {3, 5};
  write_pretrained(folder, config, weights_of(config));
  replace_file(folder / "generation_config.json", R"({"eos_token_id": 4, "temperature": 0.6})");
  EXPECT_THAT(load_pretrained(folder).eos_tokens, ElementsAre(3, 5, 4));
}

TEST_F(LoadPretrained, HasTheDtypeOfTheConfigOrTheOption) {
  auto config = small_config("llama");
  const auto dtype_of = [](const Pretrained& pretrained) {
    return module_of(pretrained.model).parameters().front().scalar_type();
  };
  EXPECT_EQ(dtype_of(load(config)), torch::kFloat);
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(dtype_of(load(config)), torch::kBFloat16);
  config["dtype"] = "float16";
  EXPECT_EQ(dtype_of(load(config)), torch::kHalf);
  EXPECT_EQ(dtype_of(load_pretrained(folder, {.dtype = torch::kDouble})), torch::kDouble);
  auto weights = weights_of(config);
  for (auto& [name, weight] : weights) weight = weight.to(torch::kBFloat16);
  EXPECT_EQ(dtype_of(load(config, weights)), torch::kHalf);
  config["dtype"] = "auto";
  EXPECT_EQ(dtype_of(load(config, weights)), torch::kBFloat16);
  config["dtype"] = nullptr;
  config.erase("torch_dtype");
  EXPECT_EQ(dtype_of(load(config, weights)), torch::kBFloat16);
}

TEST_F(LoadPretrained, KeepsAHeadThatDiffersFromTheTiedEmbedding) {
  const auto config = small_config("gpt2");
  auto weights = weights_of(config);
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    weights["lm_head.weight"] = weights.at("wte.weight").to(dtype);
    EXPECT_THAT(load(config, weights).warnings, IsEmpty());
  }
  weights["lm_head.weight"] = torch::randn({20, 8});
  const auto pretrained = load(config, weights);
  EXPECT_THAT(pretrained.warnings, SizeIs(1));
  EXPECT_TRUE(state_of(pretrained).at("head.weight").equal(weights.at("lm_head.weight")));
}

TEST_F(LoadPretrained, AcceptsTheHeadOfATiedT5) {
  const json config{{"model_type", "t5"}, {"vocab_size", 20}, {"d_model", 8},  {"d_kv", 4},
                    {"d_ff", 12},         {"num_layers", 1},  {"num_heads", 2}};
  auto weights = weights_of(config);
  weights["lm_head.weight"] = weights.at("shared.weight");
  EXPECT_THAT(load(config, weights).warnings, IsEmpty());
  weights["lm_head.weight"] = torch::randn({20, 8});
  const auto pretrained = load(config, weights);
  EXPECT_THAT(pretrained.warnings, SizeIs(1));
  EXPECT_TRUE(state_of(pretrained).at("head.weight").equal(weights.at("lm_head.weight")));
}

TEST_F(LoadPretrained, LimitsNoLengthsOfT5) {
  const json config{{"model_type", "t5"}, {"vocab_size", 20}, {"d_model", 8},   {"d_kv", 4},
                    {"d_ff", 12},         {"num_layers", 1},  {"num_heads", 2}, {"n_positions", 5}};
  const auto pretrained = load(config);
  const auto& model = std::get<Seq2Seq>(pretrained.model);
  const auto generated = generate(model, std::vector<int64_t>(600, 3),
                                  {.bos_token = 0, .eos_token = -1}, {.max_new_tokens = 600});
  EXPECT_THAT(generated.tokens, SizeIs(600));
  auto shorter = model->config;
  shorter.max_seq_len = 9;
  const Pretrained run{.model = make_model(shorter), .tokenizer = pretrained.tokenizer};
  load_state_dict(module_of(run.model), state_of(pretrained));
  save_pretrained(run, directory / "saved");
  EXPECT_EQ(load_pretrained(directory / "saved").model_type, "t5");
}

TEST_F(LoadPretrained, ScalesRotaryPositionsByTheDefaultLengthOfTheClass) {
  auto config = small_config("mistral");
  config.erase("max_position_embeddings");
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 2.0}};
  EXPECT_EQ(stack_of(config).rotary.original_max_seq_len, 131072);
}

TEST_F(LoadPretrained, ReadsShards) {
  const auto config = small_config("gpt2");
  const auto weights = weights_of(config);
  const auto expected = state_of(load(config, weights));
  fs::remove(folder / "model.safetensors");
  json map;
  std::map<std::string, std::map<std::string, torch::Tensor>> shards;
  for (const auto& [name, tensor] : weights) {
    const auto file = shards.size() < 2 || name < "h.1" ? "a.safetensors" : "b.safetensors";
    shards[file][name] = tensor;
    shards["b.safetensors"];
    map[name] = file;
  }
  for (const auto& [file, tensors] : shards) save_safetensors(folder / file, {.tensors = tensors});
  replace_file(folder / "model.safetensors.index.json", json{{"weight_map", map}}.dump());
  for (const auto& [name, tensor] : state_of(load_pretrained(folder)))
    EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
}

TEST_F(LoadPretrained, ReadsTheSettingsOfSentenceTransformers) {
  const auto config = small_config("bert");
  write_pretrained(folder, config, weights_of(config));
  const auto encoder = [&] { return std::get<SequenceClassifier>(load_pretrained(folder).model); };
  EXPECT_EQ(encoder()->config.pooling, Pooling::mean);
  EXPECT_FALSE(encoder()->config.normalize);
  replace_file(folder / "modules.json",
               R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "path": "1_P", "type": "sentence_transformers.models.Pooling"},
                   {"idx": 2, "path": "2_N", "type": "sentence_transformers.models.Normalize"}])");
  fs::create_directory(folder / "1_P");
  replace_file(folder / "1_P/config.json",
               R"({"word_embedding_dimension": 8, "pooling_mode_cls_token": true})");
  EXPECT_EQ(encoder()->config.pooling, Pooling::first);
  EXPECT_TRUE(encoder()->config.normalize);
  replace_file(folder / "sentence_bert_config.json", R"({"max_seq_length": 7})");
  EXPECT_EQ(load_pretrained(folder).tokenizer.truncation()->max_length, 7);
  replace_file(folder / "1_P/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_THAT([&] { load_pretrained(folder); },
              throws_naming<InputError>("1_P/config.json", "pooling_mode_lasttoken", "true"));
}

/// Writes an encoder with the files of sentence-transformers.
void write_encoder(const fs::path& folder) {
  const auto config = small_config("bert");
  write_pretrained(folder, config, weights_of(config));
  replace_file(folder / "modules.json",
               R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "path": "1_P", "type": "sentence_transformers.models.Pooling"}])");
  fs::create_directory(folder / "1_P");
  replace_file(folder / "1_P/config.json", R"({"embedding_dimension": 8, "pooling_mode": "cls"})");
}

TEST_F(LoadPretrained, RefusesLinksOutOfTheFolder) {
  write_encoder(folder);
  for (const char* name :
       {"generation_config.json", "sentence_bert_config.json", "config_sentence_transformers.json"})
    replace_file(folder / name, "{}");
  EXPECT_EQ(load_pretrained(folder).model_type, "bert");
  const auto outside = directory / "outside";
  std::vector<fs::path> names{"1_P"};
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder));
  }
  EXPECT_THAT(names, SizeIs(9));
  for (const auto& name : names) {
    SCOPED_TRACE(name.string());
    fs::rename(folder / name, outside);
    fs::create_symlink(outside, folder / name);
    EXPECT_THAT([&] { load_pretrained(folder); },
                throws_naming<InputError>(name.string(), "link", directory.path().string()));
    fs::remove(folder / name);
    fs::rename(outside, folder / name);
  }
  // The cache of Hugging Face has all contents in one folder.
  const auto snapshot = directory / "snapshots/revision";
  fs::create_directories(snapshot / "1_P");
  fs::create_directory(directory / "blobs");
  for (const auto& name : names) {
    if (name == "1_P") continue;
    const auto blob = directory / "blobs" / name.parent_path().concat(name.filename().string());
    fs::copy(folder / name, blob);
    fs::create_symlink(blob, snapshot / name);
  }
  EXPECT_EQ(load_pretrained(snapshot).model_type, "bert");
}

TEST_F(LoadPretrained, PutsTheDefaultPromptBeforeEachText) {
  write_encoder(folder);
  const auto settings = [&](const json& content) {
    replace_file(folder / "config_sentence_transformers.json", content.dump());
    return load_pretrained(folder);
  };
  const json prompts{{"query", "w7 w8 "}, {"document", ""}};
  EXPECT_EQ(settings({{"prompts", prompts}, {"default_prompt_name", nullptr}}).prompt, "");
  auto pretrained = settings({{"__version__", json::object()},
                              {"model_type", "SentenceTransformer"},
                              {"prompts", prompts},
                              {"default_prompt_name", "query"},
                              {"similarity_fn_name", "dot"}});
  EXPECT_THAT(pretrained.tokenize("w3 w4"), ElementsAre(7, 8, 3, 4));
  const auto expected = pretrained.encode({"w3 w4"});
  pretrained.prompt.clear();
  EXPECT_TRUE(close(pretrained.encode({"w7 w8 w3 w4"}), expected, 1e-6));
  EXPECT_FALSE(close(pretrained.encode({"w3 w4"}), expected, 1e-3));
}

TEST_F(LoadPretrained, ReadsThePromptThatSavePretrainedWrites) {
  write_encoder(folder);
  auto pretrained = load_pretrained(folder);
  pretrained.prompt = "w7 ";
  pretrained.lowercase = true;
  save_pretrained(pretrained, directory / "saved");
  const auto saved = load_pretrained(directory / "saved");
  EXPECT_EQ(saved.prompt, "w7 ");
  EXPECT_TRUE(saved.lowercase);
}

TEST_F(LoadPretrained, LowercasesAndStripsTextsAsSentenceTransformers) {
  write_encoder(folder);
  auto tokenizer = json::parse(small_tokenizer(20));
  tokenizer["pre_tokenizer"] = nullptr;  // one token per text
  tokenizer["model"]["vocab"] = {{"?", 0}, {"w1", 1}, {"W1", 2}, {" w1", 3}};
  tokenizer["model"]["unk_token"] = "?";
  replace_file(folder / "tokenizer.json", tokenizer.dump());
  EXPECT_THAT(load_pretrained(folder).tokenize(" W1 \n"), ElementsAre(2));
  for (const char* name :
       {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"}) {
    const auto path = folder / ("sentence_" + std::string(name) + "_config.json");
    replace_file(path, R"({"max_seq_length": 9, "do_lower_case": true})");
    const auto pretrained = load_pretrained(folder);
    EXPECT_THAT(pretrained.tokenize(" W1 \n"), ElementsAre(1)) << name;
    EXPECT_EQ(pretrained.tokenizer.truncation()->max_length, 9) << name;
    fs::remove(path);
  }
}

TEST_F(LoadPretrained, ReadsTheSettingsOfNewerSentenceTransformers) {
  write_encoder(folder);
  replace_file(folder / "sentence_bert_config.json", R"({
    "transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}})");
  const auto max_length = [&] {
    return load_pretrained(folder).tokenizer.truncation()->max_length;
  };
  EXPECT_EQ(max_length(), 16);
  replace_file(folder / "tokenizer_config.json", R"({"model_max_length": 6})");
  EXPECT_EQ(max_length(), 6);
  replace_file(folder / "tokenizer_config.json", R"({"model_max_length": 1e30})");
  EXPECT_EQ(max_length(), 16);
}

TEST_F(LoadPretrained, RefusesTextsWithTokensThatTheModelDoesNotHave) {
  auto config = small_config("llama");
  config["vocab_size"] = 18;  // the tokenizer has 20 tokens
  auto pretrained = load(config);
  EXPECT_THAT(pretrained.tokenize("w3 w17"), ElementsAre(3, 17));
  EXPECT_THAT(
      [&] { pretrained.tokenize("w3 w18"); },
      throws_naming<InputError>("w18", "18", "tokenizer.json", "config.json", "vocab_size"));
  config = small_config("bert");
  config["vocab_size"] = 19;
  pretrained = load(config);
  EXPECT_THAT(
      [&] {
        pretrained.encode({"w1", "w19"});
      },
      throws_naming<InputError>("text 1", "w19", "19"));
}

TEST_F(LoadPretrained, RefusesTextsThatAreNotUtf8) {
  const auto pretrained = load(small_config("llama"));
  EXPECT_THAT([&] { pretrained.tokenize("w3 \xFF"); }, throws_naming<InputError>("0xFF", "3"));
  EXPECT_THAT(pretrained.tokenize(std::string("w3 \0", 4)), ElementsAre(3, 0));  // unknown
}

TEST_F(LoadPretrained, RefusesManyLayersAndExpertsEarly) {
  auto config = small_config("mixtral");
  const auto weights = weights_of(config);
  config["num_hidden_layers"] = 1024;
  config["num_local_experts"] = 1024;
  const auto count = std::to_string(weights.size());
  EXPECT_THAT([&] { load(config, weights); },
              throws_naming<InputError>("model.safetensors", count, "1048576", "1024"));
}

/// The positions of a RoBERTa in transformers are 1 + the number of tokens so far that are not the
/// padding token, and 1 for a padding token.
TEST_F(LoadPretrained, RefusesThePaddingTokenInATextOfRoberta) {
  const auto roberta = load(small_config("roberta"));
  EXPECT_THAT(roberta.tokenize("w0 w2 w3"), ElementsAre(0, 2, 3));
  EXPECT_THAT([&] { roberta.tokenize("w0 w1 w3"); },
              throws_naming<InputError>("w1", "1", "roberta"));
  EXPECT_THAT(load(small_config("bert")).tokenize("w0 w1 w3"), ElementsAre(0, 1, 3));
}

TEST_F(LoadPretrained, EncodesTextsInTheirOrder) {
  const auto config = small_config("bert");
  auto pretrained = load(config);
  const std::vector<std::string> texts{"w3", "w4 w5 w6 w7", "w8 w9", "", "w3"};
  std::vector<std::size_t> done;
  const auto vectors = pretrained.encode(
      texts, {.batch_size = 2, .on_progress = [&](std::size_t n) { done.push_back(n); }});
  EXPECT_THAT(done, ElementsAre(2, 4, 5));
  EXPECT_EQ(vectors.sizes(), (std::vector<int64_t>{5, 8}));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto alone = pretrained.encode(std::vector{texts[i]});
    EXPECT_TRUE(close(vectors[static_cast<int64_t>(i)], alone[0], 1e-5)) << texts[i];
  }
  EXPECT_EQ(pretrained.encode(std::vector<std::string>()).sizes(), (std::vector<int64_t>{0, 8}));
  EXPECT_THAT([&] { load(small_config("gpt2")).encode(texts); },
              throws_naming<InputError>("language_model", "gpt2"));
}

/// Wrong input. Each message names the file, and the values found and expected.
struct WrongFolder {
  const char* name;
  std::function<void(const fs::path&)> change;
  std::vector<std::string> named;
};

/// Changes a key of config.json.
auto with_key(const char* key, const json& value) {
  return [=](const fs::path& folder) {
    auto config = json::parse(read_bytes(folder / "config.json"));
    config[key] = value;
    replace_file(folder / "config.json", config.dump());
  };
}

/// Changes the weights.
auto with_weights(const std::function<void(std::map<std::string, torch::Tensor>&)>& change) {
  return [=](const fs::path& folder) {
    auto content = load_safetensors(folder / "model.safetensors");
    change(content.tensors);
    save_safetensors(folder / "model.safetensors", content);
  };
}

/// Replaces the weights by an index with one entry.
auto with_index(const json& file) {
  return [=](const fs::path& folder) {
    fs::rename(folder / "model.safetensors", folder / "a.safetensors");
    replace_file(folder / "model.safetensors.index.json",
                 json{{"weight_map", {{"wte.weight", file}}}}.dump());
  };
}

/// Replaces a file.
auto with_file(const char* name, const json& content) {
  return [=](const fs::path& folder) { replace_file(folder / name, content.dump()); };
}

TEST_F(LoadPretrained, ReadsTheTokenizerWhateverItsClassIs) {
  auto config = small_config("llama");
  config["tokenizer_class"] = "LlamaTokenizerFast";
  write_pretrained(folder, config, weights_of(config));
  auto tokenizer = json::parse(small_tokenizer(20));
  tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"},
                                {"add_prefix_space", false},
                                {"trim_offsets", true},
                                {"use_regex", true}};
  tokenizer["decoder"] = {{"type", "ByteLevel"}};
  tokenizer["model"]["vocab"] = {{"?", 0}, {"a", 1}, {"Ġa", 2}, {"▁a", 3}};
  tokenizer["model"]["unk_token"] = "?";
  replace_file(folder / "tokenizer.json", tokenizer.dump());
  with_file("tokenizer_config.json",
            {{"tokenizer_class", "LlamaTokenizerFast"}, {"add_bos_token", true}, {"legacy", true}})(
      folder);
  const auto pretrained = load_pretrained(folder);
  EXPECT_THAT(pretrained.tokenize("a a"), ElementsAre(1, 2));  // a LlamaTokenizer: ▁a ▁a
  EXPECT_EQ(pretrained.tokenizer.decode(std::vector<int64_t>{1, 2}), "a a");
}

/// Expects that loading each folder, which `write` wrote and a case changed, throws an InputError.
void expect_messages(const fs::path& folder, const std::function<void()>& write,
                     const std::vector<WrongFolder>& cases) {
  for (const auto& [name, change, named] : cases) {
    SCOPED_TRACE(name);
    fs::remove_all(folder);
    write();
    change(folder);
    std::vector<testing::Matcher<const std::string&>> names;
    for (const auto& each : named) names.emplace_back(Names(each));
    EXPECT_THAT([&] { load_pretrained(folder); },
                testing::ThrowsMessage<InputError>(testing::AllOfArray(names)));
  }
}

TEST_F(LoadPretrained, MessagesAboutSentenceTransformersNameFileFoundAndExpected) {
  const auto settings = "config_sentence_transformers.json";
  const auto bert = "sentence_bert_config.json";
  const auto prompt =
      with_file(settings, {{"prompts", {{"query", "q "}}}, {"default_prompt_name", "query"}});
  const auto modules = [](const std::vector<std::string>& types) {
    json list = json::array();
    for (const auto& type : types)
      list.push_back({{"path", type == "Pooling" ? "1_P" : ""}, {"type", "models." + type}});
    return with_file("modules.json", list);
  };
  const std::vector<WrongFolder> cases{
      {"prompt_name",
       with_file(settings, {{"prompts", {{"a", ""}}}, {"default_prompt_name", "query"}}),
       {settings, "default_prompt_name", "query"}},
      {"no_prompts", with_file(settings, {{"default_prompt_name", "q"}}), {settings, "prompts"}},
      {"prompt",
       with_file(settings, {{"prompts", {{"q", 3}}}, {"default_prompt_name", "q"}}),
       {settings, "prompts.q", "3"}},
      {"without_prompt",
       [=](auto& f) {
         prompt(f);
         with_file("1_P/config.json", {{"include_prompt", false}})(f);
       },
       {"1_P/config.json", "include_prompt", "false", "true"}},
      {"truncate_dim", with_file(settings, {{"truncate_dim", 4}}), {settings, "truncate_dim", "4"}},
      {"model_type",
       with_file(settings, {{"model_type", "SparseEncoder"}}),
       {settings, "SparseEncoder", "SentenceTransformer"}},
      {"key", with_file(settings, {{"suffix", "x"}}), {settings, "suffix", "x"}},
      {"bert_key", with_file(bert, {{"pad", 3}}), {bert, "pad", "3"}},
      {"task",
       with_file(bert, {{"transformer_task", "fill-mask"}}),
       {bert, "fill-mask", "feature-extraction"}},
      {"lower", with_file(bert, {{"do_lower_case", "yes"}}), {bert, "do_lower_case", "yes"}},
      {"old_name",
       with_file("sentence_xlnet_config.json", {{"max_seq_length", 0}}),
       {"sentence_xlnet_config.json", "max_seq_length", "0"}},
      {"no_pooling", modules({"Transformer", "Normalize"}), {"modules.json", "Pooling"}},
      {"one_module", modules({"Transformer"}), {"modules.json", "1", "Pooling"}},
      {"two_poolings", modules({"Transformer", "Pooling", "Pooling"}), {"Pooling", "Normalize"}},
      {"dense", modules({"Transformer", "Pooling", "Dense"}), {"[2].type", "models.Dense"}},
      {"order", modules({"Pooling", "Transformer"}), {"[0].type", "models.Pooling"}},
      {"width",
       with_file("1_P/config.json", {{"embedding_dimension", 9}}),
       {"1_P/config.json", "embedding_dimension", "9", "8"}},
  };
  expect_messages(
      folder, [&] { write_encoder(folder); }, cases);
}

TEST_F(LoadPretrained, MessagesNameFileOfATextThatIsTooShort) {
  auto tokenizer = json::parse(small_tokenizer(20));
  const auto special = [](const char* id) {
    return json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const auto text = [](const char* id) { return json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", {special("w1"), text("A"), special("w2")}},
                                 {"pair", {text("A"), text("B")}},
                                 {"special_tokens",
                                  {{"w1", {{"id", "w1"}, {"ids", {1}}, {"tokens", {"w1"}}}},
                                   {"w2", {{"id", "w2"}, {"ids", {2}}, {"tokens", {"w2"}}}}}}};
  const auto write = [&] {
    auto config = small_config("bert");
    write_pretrained(folder, config, weights_of(config));
    replace_file(folder / "tokenizer.json", tokenizer.dump());
  };
  expect_messages(
      folder, write,
      {{"settings",
        with_file("sentence_bert_config.json", {{"max_seq_length", 1}}),
        {"sentence_bert_config.json", "max_seq_length", "1", "2"}},
       {"positions", with_key("max_position_embeddings", 1), {"config.json", "1", "2"}}});
}

TEST_F(LoadPretrained, MessagesNameFileFoundAndExpected) {
  const auto index = "model.safetensors.index.json";
  const std::vector<WrongFolder> cases{
      {"no_config", [](auto& f) { fs::remove(f / "config.json"); }, {"config.json"}},
      {"no_json", [](auto& f) { replace_file(f / "config.json", "{"); }, {"config.json"}},
      {"no_object",
       [](auto& f) { replace_file(f / "config.json", "[]"); },
       {"config.json", "array"}},
      {"model_type", with_key("model_type", "bloom"), {"config.json", "bloom", "gpt2"}},
      {"class",
       with_key("architectures", json{"GPT2ForTokenClassification"}),
       {"GPT2ForTokenClassification", "GPT2LMHeadModel"}},
      {"link_to_weights",
       [](auto& f) {
         fs::rename(f / "model.safetensors", f.parent_path() / "outside.safetensors");
         fs::create_symlink(f.parent_path() / "outside.safetensors", f / "model.safetensors");
       },
       {"model.safetensors", "link"}},
      {"unknown_key", with_key("alibi", true), {"config.json", "alibi", "true"}},
      {"wrong_type", with_key("n_layer", "two"), {"n_layer", "two"}},
      {"zero", with_key("n_layer", 0), {"n_layer", "0", "1"}},
      {"heads", with_key("n_head", 3), {"config.json", "8", "3"}},
      {"huge", with_key("n_layer", int64_t{1} << 40), {"n_layer", "1099511627776"}},
      {"dtype", with_key("dtype", "int8"), {"config.json", "dtype", "int8", "float16"}},
      {"dtype_of_file",
       with_weights([](auto& w) {
         w["wte.weight"] = torch::ones({20, 8}, torch::kInt);
       }),
       {"model.safetensors", "wte.weight", "I32", "BF16"}},
      {"dtype_of_another_weight",
       with_weights([](auto& w) {
         w["ln_f.weight"] = torch::ones(8, torch::kInt);
         w["h.1.attn.c_attn.weight"] = torch::ones({8, 24}).to(torch::kFloat8_e4m3fn);
       }),
       {"model.safetensors", "ln_f.weight: found dtype I32", "F8_E4M3", "c_attn.weight", "BF16"}},
      {"dtype_of_tied_head",
       with_weights([](auto& w) {
         w["lm_head.weight"] = torch::ones({20, 8}, torch::kBool);
       }),
       {"model.safetensors", "lm_head.weight", "BOOL", "BF16"}},
      {"unsupported",
       with_key("scale_attn_by_inverse_layer_idx", true),
       {"scale_attn_by_inverse_layer_idx", "true", "false"}},
      {"activation", with_key("activation_function", "mish"), {"mish", "gelu_new"}},
      {"eos", with_key("eos_token_id", 20), {"config.json", "eos_token_id", "20", "19"}},
      {"negative_eos", with_key("eos_token_id", {3, -1}), {"config.json", "eos_token_id", "-1"}},
      {"other_eos",
       with_file("generation_config.json", {{"eos_token_id", {3, 25}}}),
       {"generation_config.json", "eos_token_id", "25", "19"}},
      {"pipe",
       [](auto& f) { ::mkfifo((f / "generation_config.json").c_str(), 0600); },
       {"generation_config.json"}},
      {"directory",
       [](auto& f) { fs::create_directory(f / "generation_config.json"); },
       {"generation_config.json"}},
      {"layers", with_key("n_layer", 3), {"model.safetensors", "h.2.ln_1.weight"}},
      {"width", with_key("n_embd", 1 << 20), {"wte.weight", "(20, 8)", "(20, 1048576)"}},
      {"missing", with_weights([](auto& w) { w.erase("ln_f.bias"); }), {"ln_f.bias"}},
      {"unexpected", with_weights([](auto& w) { w["extra"] = torch::ones(1); }), {"extra"}},
      {"shape",
       with_weights([](auto& w) {
         w["wpe.weight"] = torch::ones({16, 9});
       }),
       {"wpe.weight", "(16, 9)", "(16, 8)"}},
      {"twice",
       with_weights([](auto& w) { w["transformer.ln_f.bias"] = torch::ones(8); }),
       {"ln_f.bias", "transformer.ln_f.bias"}},
      {"truncated",
       [](auto& f) { fs::resize_file(f / "model.safetensors", 900); },
       {"model.safetensors"}},
      {"no_tokenizer", [](auto& f) { fs::remove(f / "tokenizer.json"); }, {"tokenizer.json"}},
      {"no_weights", [](auto& f) { fs::remove(f / "model.safetensors"); }, {"model.safetensors"}},
      {"pickle",
       [](auto& f) { fs::rename(f / "model.safetensors", f / "pytorch_model.bin"); },
       {"pytorch_model.bin", "model.safetensors"}},
      {"outside", with_index("../a.safetensors"), {index, "../a.safetensors"}},
      {"absolute", with_index("/etc/passwd"), {index, "/etc/passwd"}},
      {"no_name", with_index(3), {index, "wte.weight", "3"}},
      {"no_shard", with_index("b.safetensors"), {"b.safetensors"}},
      {"not_in_index", with_index("a.safetensors"), {index, "a.safetensors"}},
      {"link",
       [&](auto& f) {
         with_index("c.safetensors")(f);
         fs::rename(f / "a.safetensors", f.parent_path() / "a.safetensors");
         fs::create_symlink(f.parent_path() / "a.safetensors", f / "c.safetensors");
       },
       {index, "c.safetensors", "link"}},
  };
  const auto config = small_config("gpt2");
  expect_messages(
      folder, [&] { write_pretrained(folder, config, weights_of(config)); }, cases);
}

}  // namespace
}  // namespace attend
