// Tests of save_pretrained. tests/transformers compares the folders of all architectures with
// Hugging Face.
#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "attend/io/vocabulary.h"
#include "attend/nn/cast_copy.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/recipe_fields.h"
#include "pretrained/config_differences.h"
#include "support/pretrained_folder.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

namespace attend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::IsEmpty;
using testing::Not;

struct SavePretrained : FixedSeed, testing::Test {
  TemporaryDirectory directory;
  fs::path folder = directory.path() / "model";
  fs::path saved = directory.path() / "saved";

  Pretrained load(const json& config) const {
    auto weights = weights_of(config);
    if (config.value("dtype", "") == "bfloat16") {
      for (auto& [name, tensor] : weights) tensor = tensor.to(torch::kBFloat16);
    }
    write_pretrained(folder, config, weights);
    return load_pretrained(folder);
  }
};

template <typename Config>
Pretrained pretrained_of(const Config& config) {
  return {.model = make_model(config), .tokenizer = TextTokenizer::parse(small_tokenizer(20))};
}

void expect_equal(const Pretrained& found, const Pretrained& expected) {
  EXPECT_EQ(found.model_type, expected.model_type);
  EXPECT_EQ(found.classes, expected.classes);
  EXPECT_EQ(found.eos_tokens, expected.eos_tokens);
  EXPECT_EQ(found.decoder_start_token, expected.decoder_start_token);
  EXPECT_EQ(found.tokenizer.json(), expected.tokenizer.json());
  const auto state = state_dict(module_of(expected.model));
  const auto found_state = state_dict(module_of(found.model));
  EXPECT_EQ(found_state.size(), state.size());
  for (const auto& [name, tensor] : found_state) {
    EXPECT_EQ(tensor.dtype(), state.at(name).dtype());
    EXPECT_TRUE(tensor.allclose(state.at(name), 1e-6, 1e-6)) << name;
  }
}

TEST_F(SavePretrained, LoadsTheSameModel) {
  auto classifier = small_config("roberta");
  classifier["architectures"] = {"RobertaForSequenceClassification"};
  classifier["id2label"] = {{"0", "neg"}, {"1", "pos"}, {"2", "?"}};
  auto stops = small_config("phi3");
  stops.erase("head_dim");
  stops["eos_token_id"] = {3, 5};
  auto t5 = json{
      {"model_type", "t5"}, {"vocab_size", 20}, {"d_model", 8},   {"d_kv", 4},
      {"d_ff", 12},         {"num_layers", 1},  {"num_heads", 2}, {"decoder_start_token_id", 0}};
  for (auto config : {small_config("gpt2"), small_config("gemma2"), small_config("mixtral"),
                      classifier, stops, t5}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(config.dump());
      config["dtype"] = dtype;
      const auto pretrained = load(config);
      fs::remove_all(saved);
      save_pretrained(pretrained, saved);
      const auto loaded = load_pretrained(saved);
      EXPECT_THAT(loaded.warnings, IsEmpty());
      expect_equal(loaded, pretrained);
    }
  }
}

TEST_F(SavePretrained, WritesNoProblemTypeForOneClass) {
  for (const int classes : {1, 2}) {
    auto config = small_config("bert");
    config["architectures"] = {"BertForSequenceClassification"};
    config["id2label"] = json::object();
    for (int i = 0; i < classes; ++i) config["id2label"][std::to_string(i)] = "c";
    fs::remove_all(saved);
    save_pretrained(load(config), saved);
    EXPECT_EQ(load_pretrained(saved).classes.size(), classes);
    const auto written = json::parse(read_bytes(saved / "config.json"));
    EXPECT_EQ(written.contains("problem_type"), classes > 1);
  }
}

TEST_F(SavePretrained, DoesNotRoundTheNormsOfGemmaBeforeTheCast) {
  const auto pretrained = load(small_config("gemma2"));
  save_pretrained(pretrained, saved, {.dtype = torch::kBFloat16});
  const auto expected = load_safetensors(folder / "model.safetensors").tensors;
  for (const auto& [name, tensor] : load_safetensors(saved / "model.safetensors").tensors) {
    EXPECT_EQ(tensor.dtype(), torch::kBFloat16);
    const auto plain = name.starts_with("model.") ? name.substr(6) : name;
    EXPECT_TRUE(tensor.to(torch::kFloat).allclose(expected.at(plain), 1.0 / 256, 1e-6)) << name;
  }
}

TEST_F(SavePretrained, KeepsTheSettingsOfAnEncoder) {
  auto pretrained = load(small_config("bert"));
  auto& encoder = std::get<SequenceClassifier>(pretrained.model);
  for (const auto pooling : {Pooling::mean, Pooling::max, Pooling::first}) {
    for (const bool normalize : {false, true}) {
      encoder->config.pooling = pooling;
      encoder->config.normalize = normalize;
      pretrained.tokenizer.set_truncation(TruncationOptions{.max_length = 5});
      fs::remove_all(saved);
      save_pretrained(pretrained, saved);
      auto loaded = load_pretrained(saved);
      const auto& config = std::get<SequenceClassifier>(loaded.model)->config;
      EXPECT_EQ(config.pooling, pooling);
      EXPECT_EQ(config.normalize, normalize);
      EXPECT_EQ(loaded.tokenizer.truncation()->max_length, 5);
      const std::vector<std::string> texts{"w3 w4", "w5 w6 w7 w8 w9 w10"};
      EXPECT_TRUE(loaded.encode(texts).equal(pretrained.encode(texts)));
    }
  }
}

TEST_F(SavePretrained, SelectsAnArchitectureWithTheOptions) {
  const auto model_type = [&](const LanguageModelConfig& config) {
    fs::remove_all(saved);
    save_pretrained(pretrained_of(config), saved);
    return load_pretrained(saved).model_type;
  };
  LanguageModelConfig config{.vocab_size = 20, .stack = {.num_heads = 2, .embed_dim = 8}};
  EXPECT_EQ(model_type(config), "gpt2");
  auto& stack = config.stack;
  stack.positions = PositionScheme::rotary;
  EXPECT_EQ(model_type(config), "gpt_neox");
  stack.rotary.rotary_dim = 2;
  EXPECT_EQ(model_type(config), "gpt_neox");
  stack.rotary = {};
  stack.norm = NormKind::rms;
  stack.activation = Activation::swiglu;
  stack.bias = false;
  stack.num_kv_heads = 1;
  EXPECT_EQ(model_type(config), "llama");
  stack.rotary.rotary_dim = 2;  // transformers ignores it in Llama
  EXPECT_EQ(model_type(config), "phi3");
  stack.rotary = {.scaling = RotaryScaling::yarn, .factor = 2.0, .original_max_seq_len = 32};
  EXPECT_EQ(model_type(config), "llama");
  stack.sliding_window = 4;
  EXPECT_EQ(model_type(config), "mistral");
  stack.qkv_bias = true;
  EXPECT_EQ(model_type(config), "qwen2");
  stack.qkv_bias = false;
  stack.qk_norm = QKNormKind::rms;
  stack.sliding_window = 0;
  stack.sliding_window_pattern = {4, 0};
  EXPECT_EQ(model_type(config), "qwen3");
}

TEST_F(SavePretrained, MessagesNameTheOptionsOfTheNearestArchitecture) {
  LanguageModelConfig config{
      .vocab_size = 20,
      .stack = {.num_heads = 2, .embed_dim = 8, .smeared_keys = true, .norm = NormKind::rms}};
  const auto save = [&](const Pretrained& pretrained) {
    return [&] { save_pretrained(pretrained, saved); };
  };
  EXPECT_THAT(save(pretrained_of(config)),
              throws_naming<InputError>("gpt2", "smeared_keys", "norm", "rms", "layer"));
  config.stack = {.num_heads = 2, .embed_dim = 8};
  auto other = pretrained_of(config);
  other.model_type = "llama";
  EXPECT_THAT(save(other), throws_naming<InputError>("llama", "positions"));
  other.model_type = "bert";
  EXPECT_THAT(save(other), throws_naming<InputError>("language_model", "bert", "gpt2, gpt_neox"));
  config.stack.activation = [](const torch::Tensor& x) { return torch::mish(x); };
  EXPECT_THAT(save(pretrained_of(config)), throws_naming<InputError>("activation"));
  SequenceClassifierConfig classifier{.vocab_size = 20, .num_classes = 3, .stack = config.stack};
  EXPECT_THAT(save(pretrained_of(classifier)),
              throws_naming<InputError>("distilbert", "num_classes", "3", "norm_order"));
  EXPECT_FALSE(fs::exists(saved));
}

TEST_F(SavePretrained, RefusesDtypesThatModelsCannotHave) {
  const auto pretrained = load(small_config("gpt2"));
  for (const auto dtype : {torch::kInt, torch::kFloat8_e4m3fn}) {
    const auto name = c10::getDtypeNames(dtype).first;
    const auto save = [&] { save_pretrained(pretrained, saved, {.dtype = dtype}); };
    EXPECT_THAT(save, throws_naming<c10::ValueError>("dtype", "bfloat16", name));
    const auto load_again = [&] { load_pretrained(folder, {.dtype = dtype}); };
    EXPECT_THAT(load_again, throws_naming<c10::ValueError>("dtype", "bfloat16", name));
  }
  EXPECT_FALSE(fs::exists(saved));
}

TEST_F(SavePretrained, RefusesEmbeddingsThatT5Shares) {
  const json config{{"model_type", "t5"}, {"vocab_size", 20}, {"d_model", 8},  {"d_kv", 4},
                    {"d_ff", 12},         {"num_layers", 1},  {"num_heads", 2}};
  const auto pretrained = load(config);
  const torch::NoGradGuard no_grad;
  std::get<Seq2Seq>(pretrained.model)->target_embedding->token->weight[3] += 1;
  EXPECT_THAT([&] { save_pretrained(pretrained, saved); },
              throws_naming<InputError>("target_embedding.token.weight", "t5"));
  EXPECT_FALSE(fs::exists(saved));
}

TEST_F(SavePretrained, LeavesOtherFoldersUnchanged) {
  const auto pretrained = load(small_config("gpt2"));
  const auto save = [&](const fs::path& target) {
    return [=] { save_pretrained(pretrained, target); };
  };
  EXPECT_THAT(save(folder), throws_naming<InputError>("model", "empty"));
  EXPECT_THAT(save(folder / "config.json"), testing::Throws<std::exception>());
  EXPECT_THAT(save(""), throws_naming<InputError>("''"));
  fs::create_directory(saved);
  const auto current = fs::current_path();
  fs::current_path(saved);
  EXPECT_THAT(save("."), throws_naming<InputError>(".", "current folder"));
  fs::current_path(current);
  save_pretrained(pretrained, saved / "");
  EXPECT_EQ(load_pretrained(saved).model_type, "gpt2");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory.path()))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("model", "saved"));
}

/// Changes a value of a recipe.
struct Change {
  void operator()(std::monostate) const {}
  void operator()(int64_t* value) const { *value += 1; }
  void operator()(double* value) const { *value += 0.5; }
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::vector<int64_t>* value) const { *value = {3, 0}; }
  template <typename T>
  void operator()(T* value) const {
    if constexpr (std::is_enum_v<T>) *value = static_cast<T>(*value == T(0) ? 1 : 0);
  }
};

TEST(ConfigDifferences, NamesEachOptionOfARecipe) {
  const std::vector<std::string> training{"dropout", "stochastic_depth", "gradient_checkpointing",
                                          "initialization"};
  for (const ModelConfig& model :
       {ModelConfig(LanguageModelConfig()), ModelConfig(SequenceClassifierConfig()),
        ModelConfig(Seq2SeqConfig())}) {
    for (const auto& field : train::recipe_fields()) {
      if (std::string_view(field.section) != "model" || std::string_view(field.key) == "kind")
        continue;
      SCOPED_TRACE(field.key);
      train::Recipe recipe;
      recipe.model = model;
      recipe.stack().bias = std::string_view(field.key) != "qkv_bias";  // else without effect
      const auto before = recipe.model;
      const auto ref = field.ref(recipe);
      std::visit(Change(), ref);
      const auto list = config_differences(explicit_config(recipe.model), explicit_config(before));
      const bool is_used = !std::holds_alternative<std::monostate>(ref) &&
                           std::ranges::count(training, field.key) == 0;
      if (is_used) {
        EXPECT_THAT(list, Not(IsEmpty()));
      } else {
        EXPECT_THAT(list, IsEmpty());
      }
    }
  }
}

/// Draws a text of words, white space and line breaks.
std::string random_words() {
  const std::vector<std::string> pieces{" ", "  ", "\n",  "\t", "\r\n",  "\r",
                                        "a", "b",  "##c", "é",  "<unk>", "."};
  std::string text;
  const auto length = draw(0, 30);
  for (int64_t i = 0; i < length; ++i)
    text += pieces[static_cast<std::size_t>(draw(0, std::ssize(pieces) - 1))];
  return text;
}

TEST(ToTextTokenizer, EncodesAndDecodesAsTheTokenizerOfARun) {
  seed_afresh();
  const std::string text = "a b ##c\té\n.\n";
  const std::vector<std::unique_ptr<Tokenizer>> tokenizers = [&] {
    std::vector<std::unique_ptr<Tokenizer>> all;
    all.push_back(std::make_unique<ByteTokenizer>());
    for (const auto unknown : {UnknownCharacters::error, UnknownCharacters::replace}) {
      all.push_back(std::make_unique<Vocabulary>(Vocabulary::of_characters(text, unknown)));
      all.push_back(std::make_unique<Vocabulary>(Vocabulary::of_characters("ab \r", unknown)));
    }
    for (const int64_t size : {0, 5, 20}) {
      all.push_back(std::make_unique<Vocabulary>(Vocabulary::of_words(text, size)));
      all.push_back(std::make_unique<Vocabulary>(Vocabulary::of_words("a b ##c", size)));
    }
    return all;
  }();
  for (const auto& tokenizer : tokenizers) {
    SCOPED_TRACE(tokenizer->files().at(kTokenizerFile));
    const auto published = to_text_tokenizer(*tokenizer);
    EXPECT_EQ(published.vocab_size(), tokenizer->size());
    for (int i = 0; i < 50; ++i) {
      const auto drawn = i % 2 == 0 ? random_words() : random_text(10);
      SCOPED_TRACE(testing::PrintToString(drawn));
      std::vector<int64_t> expected;
      try {
        expected = tokenizer->encode(drawn);
      } catch (const InputError&) {
        EXPECT_THROW(published.encode(drawn), InputError);
        continue;
      }
      EXPECT_EQ(published.encode(drawn).ids, expected);
      EXPECT_EQ(published.decode(expected), tokenizer->decode(expected));
    }
  }
}

}  // namespace
}  // namespace attend
