// Runs that begin with the weights of a published model.
#include "attend/train/initial_model.h"

#include "attend/input_error.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/save_run.h"
#include "attend/train/training_run.h"
#include "support/pretrained_folder.h"
#include "support/seed.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

struct InitialModelTest : FixedSeed, testing::Test {
  TemporaryDirectory directory;
  fs::path folder = directory.path() / "published";
  fs::path out = directory.path() / "run";

  std::string write(const std::string& name, const std::string& content) const {
    replace_file(directory.path() / name, content);
    return (directory.path() / name).string();
  }
  void publish(const json& config) const { write_pretrained(folder, config, weights_of(config)); }
  /// Returns the weights in the file of `folder`.
  std::map<std::string, torch::Tensor> published_weights() const {
    return load_safetensors(folder / "model.safetensors").tensors;
  }
  /// Writes an adapter of `folder`, in the format of PEFT.
  fs::path write_adapter(const torch::Tensor& a, const torch::Tensor& b, double alpha = 6) const {
    const auto adapter = directory.path() / "adapter";
    fs::create_directories(adapter);
    const json config{{"peft_type", "LORA"},
                      {"base_model_name_or_path", folder.string()},
                      {"r", 2},
                      {"lora_alpha", alpha},
                      {"target_modules", {"layers.0.self_attn.q_proj"}}};
    replace_file(adapter / "adapter_config.json", config.dump());
    const std::string prefix = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
    save_safetensors(adapter / "adapter_model.safetensors",
                     {.tensors = {{prefix + "A.weight", a}, {prefix + "B.weight", b}}});
    return adapter;
  }
  void replace_weights(const std::map<std::string, torch::Tensor>& weights) const {
    save_safetensors(folder / "model.safetensors", {.tensors = weights});
  }

  Recipe recipe_of(const std::string& task) const {
    auto recipe = fine_tuning_recipe(InitialModel(folder).recipe(), task);
    recipe.training = small_recipe(task, 3).training;
    std::string text;
    for (int i = 0; i < 60; ++i) text += "w1 w2 w3 w4 w5 w6 w7 ";
    const auto table = write(
        "table.csv", "text,label\n" + [] {
          std::string rows;
          for (int i = 0; i < 20; ++i) rows += "w1 w2 w3,one\nw4 w5,two\nw6,three\n";
          return rows;
        }());
    recipe.text = {task == "text" ? write("text.txt", text) : table};
    return recipe;
  }
  TrainingRun begin(const Recipe& recipe, RunMode mode = RunMode::overwrite) const {
    return make_training_run(out, recipe, {.mode = mode, .init_from = folder});
  }
  auto beginning(const Recipe& recipe) const {
    return [this, recipe] { begin(recipe); };
  }
};

const SequenceClassifierConfig& classifier_of(TrainingRun& run) {
  return std::get<SequenceClassifier>(run.setup().model)->config;
}

TEST_F(InitialModelTest, LanguageModelIsTunedAndPublishedAgain) {
  for (const char* type : {"gpt2", "llama", "gpt_neox"}) {
    SCOPED_TRACE(type);
    auto config = small_config(type);
    if (std::string(type) == "gpt_neox") config["rotary_pct"] = 0.5;
    publish(config);
    const auto expected = state_dict(module_of(load_pretrained(folder).model));
    auto run = begin(recipe_of("text"));
    EXPECT_TRUE(equal_tensors(state_dict(module_of(run.setup().model)), expected));
    EXPECT_EQ(run.setup().initial_weights->num_tensors, static_cast<int64_t>(expected.size()));
    run.finish(run.train());
    const auto tuned = RunDirectory::open(out).load();
    const auto& tokenizer = dynamic_cast<const PublishedTokenizer&>(*tuned.tokenizer);
    EXPECT_EQ(tokenizer.text_tokenizer().json(), small_tokenizer(20));
    EXPECT_EQ(tokenizer.model().model_type, type);
    EXPECT_EQ(RunDirectory::open(out).record().init_from, InitialModel(folder).id());
  }
}

TEST_F(InitialModelTest, TextIsNeitherTruncatedNorPadded) {
  publish(small_config("llama"));
  auto tokenizer = json::parse(small_tokenizer(20));
  tokenizer["truncation"] = {
      {"direction", "Right"}, {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}};
  tokenizer["padding"] = {{"strategy", {{"Fixed", 500}}},
                          {"direction", "Right"},
                          {"pad_to_multiple_of", nullptr},
                          {"pad_id", 19},
                          {"pad_type_id", 0},
                          {"pad_token", "w19"}};
  replace_file(folder / "tokenizer.json", tokenizer.dump());
  const auto recipe = recipe_of("text");
  auto run = begin(recipe);
  EXPECT_EQ(*run.setup().task->num_training_sequences(), 420 * 9 / 10 / 16);
}

TEST_F(InitialModelTest, EncoderBecomesAClassifierWithTheClassesOfTheTable) {
  auto config = small_config("bert");
  publish(config);
  {
    auto run = begin(recipe_of("labelled-lines"));
    EXPECT_EQ(classifier_of(run).num_classes, 3);
    EXPECT_EQ(classifier_of(run).pooling, Pooling::first);
    EXPECT_THAT(run.setup().initial_weights->keys.missing_keys,
                ElementsAre("head.bias", "head.weight", "pooler.bias", "pooler.weight"));
  }
  auto weights = published_weights();
  weights["pooler.dense.weight"] = torch::randn({8, 8});
  weights["pooler.dense.bias"] = torch::randn({8});
  replace_weights(weights);
  auto run = begin(recipe_of("labelled-lines"));
  EXPECT_THAT(run.setup().initial_weights->keys.missing_keys,
              ElementsAre("head.bias", "head.weight"));
  EXPECT_TRUE(std::get<SequenceClassifier>(run.setup().model)
                  ->pooler->weight.equal(weights.at("pooler.dense.weight")));
  run.finish(run.train());
  EXPECT_THAT(RunDirectory::open(out).load().classes, ElementsAre("one", "three", "two"));
}

TEST_F(InitialModelTest, PooledAndNormalizedEncoderIsTunedAsInTransformers) {
  publish(small_config("bert"));
  fs::create_directories(folder / "1_Pooling");
  replace_file(folder / "modules.json",
               json::array({{{"idx", 0},
                             {"name", "0"},
                             {"path", ""},
                             {"type", "sentence_transformers.models.Transformer"}},
                            {{"idx", 1},
                             {"name", "1"},
                             {"path", "1_Pooling"},
                             {"type", "sentence_transformers.models.Pooling"}},
                            {{"idx", 2},
                             {"name", "2"},
                             {"path", "2_Normalize"},
                             {"type", "sentence_transformers.models.Normalize"}}})
                   .dump());
  replace_file(folder / "1_Pooling" / "config.json",
               json{{"word_embedding_dimension", 8}, {"pooling_mode_mean_tokens", true}}.dump());
  EXPECT_TRUE(std::get<SequenceClassifier>(load_pretrained(folder).model)->config.normalize);
  auto run = begin(recipe_of("labelled-lines"));
  EXPECT_FALSE(classifier_of(run).normalize);
  EXPECT_EQ(classifier_of(run).pooling, Pooling::first);
  EXPECT_TRUE(classifier_of(run).pooler);
}

TEST_F(InitialModelTest, HeadOfTheSameClassesIsKept) {
  auto config = small_config("bert");
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = {{"0", "one"}, {"1", "three"}, {"2", "two"}};
  publish(config);
  {
    auto run = begin(recipe_of("labelled-lines"));
    EXPECT_THAT(run.setup().initial_weights->keys.missing_keys, IsEmpty());
    EXPECT_TRUE(std::get<SequenceClassifier>(run.setup().model)
                    ->head->weight.equal(published_weights().at("classifier.weight")));
  }
  config["id2label"]["2"] = "four";
  publish(config);
  auto run = begin(recipe_of("labelled-lines"));
  EXPECT_THAT(run.setup().initial_weights->keys.missing_keys,
              ElementsAre("head.bias", "head.weight"));
}

TEST_F(InitialModelTest, OptionsThatContradictTheFolderAreRefusedWithBothValues) {
  publish(small_config("llama"));
  const auto with = [&](auto change) {
    auto recipe = recipe_of("text");
    change(recipe);
    return beginning(recipe);
  };
  const auto path = folder.string();
  EXPECT_THAT(with([](auto& recipe) { recipe.stack().embed_dim = 16; }),
              throws_naming<InputError>(path, "embed_dim", "'8'", "'16'"));
  EXPECT_THAT(with([](auto& recipe) { recipe.stack().num_heads = 1; }),
              throws_naming<InputError>(path, "num_heads", "'2'", "'1'"));
  EXPECT_THAT(with([](auto& recipe) { recipe.stack().activation = Activation::gelu; }),
              throws_naming<InputError>(path, "activation", "'swiglu'", "'gelu'"));
  EXPECT_THAT(with([](auto& recipe) { recipe.data.tokenizer = TokenizerKind::byte; }),
              throws_naming<InputError>(path, "tokenizer", "'published'", "'byte'"));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_NO_THROW(with([](auto& recipe) {
    recipe.stack().dropout = 0.1;
    recipe.stack().gradient_checkpointing = true;
    recipe.max_seq_len() = 8;
  })());
}

TEST_F(InitialModelTest, OtherFoldersAreRefused) {
  const auto opening = [this] { InitialModel{folder}; };
  EXPECT_THAT(opening, throws_naming<InputError>(folder.string(), "recipe.toml", "config.json"));
  publish({{"model_type", "t5"},
           {"vocab_size", 20},
           {"d_model", 8},
           {"d_kv", 4},
           {"d_ff", 12},
           {"num_layers", 1},
           {"num_heads", 2}});
  EXPECT_THAT(opening, throws_naming<InputError>(folder.string(), "t5", "seq2seq"));
  publish(small_config("bert"));
  replace_file(folder / "sentence_bert_config.json",
               json{{"max_seq_length", 8}, {"do_lower_case", true}}.dump());
  EXPECT_THAT(opening, throws_naming<InputError>(folder.string(), "do_lower_case"));
  fs::remove(folder / "sentence_bert_config.json");
  auto config = small_config("bert");
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = {{"0", "score"}};
  publish(config);
  EXPECT_THAT(opening, throws_naming<InputError>(folder.string(), "1"));
}

TEST_F(InitialModelTest, UntiedHeadIsKeptWithAWarning) {
  auto config = small_config("llama");
  config["tie_word_embeddings"] = true;
  publish(config);
  auto weights = published_weights();
  weights["lm_head.weight"] = torch::randn({20, 8});
  replace_weights(weights);
  auto run = begin(recipe_of("text"));
  EXPECT_THAT(run.setup().initial_weights->warnings, ElementsAre(Names("lm_head.weight")));
  EXPECT_TRUE(
      std::get<LanguageModel>(run.setup().model)->head->weight.equal(weights.at("lm_head.weight")));
}

TEST_F(InitialModelTest, ResumedRunNeedsNoFolder) {
  publish(small_config("gpt2"));
  const auto recipe = recipe_of("text");
  begin(recipe);
  const auto other = directory.path() / "other";
  fs::copy(folder, other);
  auto weights = published_weights();
  weights.begin()->second += 1;
  replace_weights(weights);
  EXPECT_THAT(
      [&] { begin(recipe, RunMode::begin_or_resume); },
      throws_naming<InputError>("init_from", InitialModel(other).id(), InitialModel(folder).id()));
  fs::remove_all(folder);
  auto run = make_training_run(out, recipe, {.mode = RunMode::resume});
  EXPECT_EQ(run.state().step, 0);
  run.finish(run.train());
}

TEST_F(InitialModelTest, RunIsOpenedLikeAFolder) {
  publish(small_config("llama"));
  const auto published = published_run(load_pretrained(folder), folder);
  save_run(published, out);
  const InitialModel run(out);
  EXPECT_FALSE(run.is_published());
  EXPECT_EQ(run.id(), RunDirectory::open(out).record().run_id);
  EXPECT_EQ(run.tokenizer()->files(), InitialModel(folder).tokenizer()->files());
  EXPECT_EQ(to_toml(run.recipe()), to_toml(InitialModel(folder).recipe()));
  EXPECT_TRUE(equal_tensors(state_dict(module_of(run.load().model)),
                            state_dict(module_of(InitialModel(folder).load().model))));
}

TEST_F(InitialModelTest, AdapterOfAPublishedModelIsMerged) {
  publish(small_config("llama"));
  const auto adapter = write_adapter(torch::randn({2, 8}), torch::randn({8, 2}));
  save_run(published_run(load_pretrained(adapter), adapter), out);
  const auto run = InitialModel(out).load();
  const auto found = state_dict(module_of(run.model));
  EXPECT_TRUE(equal_tensors(found, state_dict(module_of(InitialModel(adapter).load().model))));
  const auto base = state_dict(module_of(InitialModel(folder).load().model));
  EXPECT_EQ(found.size(), base.size());
  EXPECT_FALSE(equal_tensors(found, base));
  for (const auto& parameter : module_of(InitialModel(adapter).load().model).parameters())
    EXPECT_TRUE(parameter.requires_grad());
}

TEST_F(InitialModelTest, ChecksumIsThatOfTheStoredWeights) {
  publish(small_config("llama"));
  const auto a = torch::randn({2, 8});
  const auto zeros = torch::zeros({8, 2});
  const auto found = [this] {
    std::string checksum;
    const auto run = InitialModel(directory.path() / "adapter").load(&checksum);
    return std::pair(checksum, state_dict(module_of(run.model)));
  };
  write_adapter(a, zeros);
  const auto [checksum, weights] = found();
  EXPECT_EQ(found().first, checksum);
  write_adapter(2 * a, zeros);  // the same merged weights
  EXPECT_TRUE(equal_tensors(found().second, weights));
  EXPECT_NE(found().first, checksum);
  write_adapter(a, zeros, 5);
  EXPECT_NE(found().first, checksum);
  write_adapter(a, zeros);
  EXPECT_EQ(found().first, checksum);
  auto published = published_weights();
  published.begin()->second += 1;
  replace_weights(published);
  EXPECT_NE(found().first, checksum);
}

}  // namespace
}  // namespace attend::train
