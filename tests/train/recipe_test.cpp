#include "attend/train/recipe.h"

#include "attend/input_error.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class RecipeFile : public testing::Test {
 protected:
  Recipe read(const std::string& toml) {
    replace_file(directory_ / "recipe.toml", toml);
    return read_recipe(directory_ / "recipe.toml", Recipe{});
  }
  auto reading(const std::string& toml) {
    return [=, this] { read(toml); };
  }

  TemporaryDirectory directory_;
};

TEST(WithLineBreaks, ReplacesOnlyCrLf) {
  EXPECT_EQ(with_line_breaks("a\r\n\r\nb\rc\r\r\n\n\r", {}), "a\n\nb\rc\r\n\n\r");
  EXPECT_EQ(with_line_breaks("", {}), "");
  DataConfig kept;
  kept.keep_carriage_returns = true;
  EXPECT_EQ(with_line_breaks("a\r\n", kept), "a\r\n");
}

TEST_F(RecipeFile, RoundTripsTheDefaultsOfEveryTask) {
  for (const auto& task : tasks()) {
    EXPECT_EQ(to_toml(read(to_toml(task.defaults))), to_toml(task.defaults)) << task.name;
  }
}

TEST_F(RecipeFile, RoundTripsOtherValuesThanDefaults) {
  Recipe recipe;
  recipe.text = {"a \"quoted\" \\ path\n"};
  std::get<LanguageModelConfig>(recipe.model).tie_embeddings = false;
  recipe.stack().positions = PositionScheme::sinusoidal;
  recipe.stack().norm_order = NormOrder::post;
  recipe.training.lr = 0.1 + 0.2;  // needs 17 digits
  recipe.training.optimizer = OptimizerKind::muon;
  recipe.training.schedule = ScheduleKind::wsd;
  recipe.training.seed = 9007199254740993;
  const auto again = read(to_toml(recipe));
  EXPECT_EQ(again.text, recipe.text);
  EXPECT_FALSE(std::get<LanguageModelConfig>(again.model).tie_embeddings);
  EXPECT_EQ(again.stack().positions, PositionScheme::sinusoidal);
  EXPECT_EQ(again.stack().norm_order, NormOrder::post);
  EXPECT_EQ(again.training.lr, recipe.training.lr);
  EXPECT_EQ(again.training.optimizer, OptimizerKind::muon);
  EXPECT_EQ(again.training.schedule, ScheduleKind::wsd);
  EXPECT_EQ(again.training.seed, recipe.training.seed);
}

TEST_F(RecipeFile, PathsAreAStringOrAList) {
  for (const auto& [line, expected] :
       {std::pair("text = 'a'", std::vector<std::string>{"a"}),
        std::pair("text = ['a']", std::vector<std::string>{"a"}),
        std::pair("text = ['b', 'a b']", std::vector<std::string>{"b", "a b"}),
        std::pair("text = ''", std::vector<std::string>{}),
        std::pair("text = []", std::vector<std::string>{})}) {
    const auto recipe = read(line);
    EXPECT_EQ(recipe.text, expected) << line;
    EXPECT_EQ(read(to_toml(recipe)).text, expected) << line;
  }
  for (const char* line : {"text = 3", "text = ['a', 3]", R"(text = ["a\u0000"])"})
    EXPECT_THROW(read(line), InputError) << line;
}

TEST_F(RecipeFile, NumbersAreTheShortestThatReadBackToTheSameNumber) {
  Recipe recipe;
  for (const auto& [number, line] :
       {std::pair(0.1, "lr = 0.1\n"), std::pair(1.0, "lr = 1.0\n"), std::pair(1e-9, "lr = 1e-09\n"),
        std::pair(0.1 + 0.2, "lr = 0.30000000000000004\n")}) {
    recipe.training.lr = number;
    EXPECT_THAT(to_toml(recipe), HasSubstr(line));
    EXPECT_EQ(read(to_toml(recipe)).training.lr, number);
  }
}

/// Changes every value of the recipe's model.
void change_all(Recipe& recipe) {
  for (const auto& field : recipe_fields()) {
    if (std::string(field.section) != "model") continue;
    std::visit(
        [&](auto value) {
          using T = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<T, bool>) {
            *value = !*value;
          } else if constexpr (std::is_enum_v<T>) {
            *value = static_cast<T>(EnumNames<T>::names.size() - 1);
          } else if constexpr (std::is_arithmetic_v<T>) {
            *value = static_cast<T>(static_cast<double>(*value) / 2.0 + 3.25);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            *value = {17, 0};
          }
        },
        field.ref(recipe));
  }
}

TEST_F(RecipeFile, RoundTripsEveryValueOfEveryKindOfModel) {
  for (const auto& model :
       {ModelConfig(LanguageModelConfig()), ModelConfig(SequenceClassifierConfig()),
        ModelConfig(Seq2SeqConfig())}) {
    Recipe recipe;
    recipe.model = model;
    const auto before = to_toml(recipe);
    change_all(recipe);
    const auto again = read(to_toml(recipe));
    EXPECT_EQ(model_kind(again.model), model_kind(model));
    EXPECT_EQ(to_toml(again), to_toml(recipe));
    EXPECT_NE(to_toml(again), before);
    EXPECT_EQ(again.stack().rotary.theta, recipe.stack().rotary.theta);
    EXPECT_EQ(again.stack().initialization, Initialization::bloem);
  }
}

TEST_F(RecipeFile, ErrorsListTheKindsOfModels) {
  EXPECT_THAT(reading("[model]\nkind = 'rnn'\n"),
              ThrowsMessage<InputError>(HasSubstr("model.kind: expected one of language_model, "
                                                  "sequence_classifier, seq2seq, found 'rnn'")));
  EXPECT_THAT(
      reading("[model]\npooling = 'max'\n"),
      ThrowsMessage<InputError>(HasSubstr("model.pooling: a language_model has no such option")));
  EXPECT_EQ(std::get<SequenceClassifierConfig>(
                read("[model]\nkind = 'sequence_classifier'\npooling = 'max'\n").model)
                .pooling,
            Pooling::max);
}

TEST_F(RecipeFile, KeepsOtherValuesOfTheBase) {
  const auto recipe = read("[model]\nnum_layers = 7\n");
  EXPECT_EQ(recipe.stack().num_layers, 7);
  EXPECT_EQ(recipe.stack().embed_dim, Recipe{}.stack().embed_dim);
}

TEST_F(RecipeFile, AcceptsIntegersForFloats) {
  EXPECT_EQ(read("[training]\nlr = 1\n").training.lr, 1.0);
}

TEST_F(RecipeFile, SuggestsTheNearestKey) {
  EXPECT_THAT(reading("[model]\nnum_layer = 2\n"),
              ThrowsMessage<InputError>(HasSubstr("unknown key 'model.num_layer'; did you mean "
                                                  "'model.num_layers'?")));
  EXPECT_THAT(reading("tsk = 'senses'\n"), ThrowsMessage<InputError>(HasSubstr("'task'")));
}

TEST_F(RecipeFile, ZeroThreadsAreCalledAuto) {
  EXPECT_EQ(read("[training]\nthreads = 'auto'\n").training.threads, 0);
  EXPECT_EQ(read("[training]\nthreads = 0\n").training.threads, 0);
  EXPECT_EQ(read("[training]\nthreads = 3\n").training.threads, 3);
  EXPECT_THAT(to_toml(Recipe{}), HasSubstr("threads = 'auto'"));
  EXPECT_THAT(
      reading("[training]\nthreads = 'all'\n"),
      ThrowsMessage<InputError>(HasSubstr("threads: expected an integer or 'auto', found 'all'")));
}

TEST_F(RecipeFile, SuggestsTheNearestTable) {
  EXPECT_THAT(reading("[modl]\nnum_layers = 2\n"),
              ThrowsMessage<InputError>(
                  HasSubstr("unknown table [modl], expected one of [data], [model], [lora], "
                            "[training], [expected]; did you mean '[model]'?")));
}

TEST_F(RecipeFile, ErrorsNameFoundAndExpectedValue) {
  EXPECT_THAT(reading("[model]\nnum_layers = 'two'\n"),
              ThrowsMessage<InputError>(HasSubstr("model.num_layers: expected an integer")));
  EXPECT_THAT(reading("[model]\nnum_layers = 2.5\n"),
              ThrowsMessage<InputError>(HasSubstr("found 2.5")));
  EXPECT_THAT(reading("[model]\nsliding_window_pattern = 4\n"),
              ThrowsMessage<InputError>(
                  HasSubstr("model.sliding_window_pattern: expected a list of integers, found 4")));
  EXPECT_THAT(reading("[model]\nsliding_window_pattern = [4, 'none']\n"),
              ThrowsMessage<InputError>(HasSubstr("expected a list of integers")));
  EXPECT_THAT(reading("[model]\ntie_embeddings = 1\n"),
              ThrowsMessage<InputError>(HasSubstr("true or false")));
  EXPECT_THAT(reading("[model]\npositions = 'rotten'\n"),
              ThrowsMessage<InputError>(
                  HasSubstr("one of none, learned, sinusoidal, rotary, alibi, relative")));
  EXPECT_THAT(reading("[model]\nnum_layers = [1]\n"),
              ThrowsMessage<InputError>(HasSubstr("an array")));
  EXPECT_THAT(reading("model = 3\n"), ThrowsMessage<InputError>(HasSubstr("unknown key 'model'")));
  EXPECT_THAT(reading("layers = = 3\n"), ThrowsMessage<InputError>(HasSubstr("invalid TOML")));
}

TEST(Recipe, CheckNamesKeyValueAndRange) {
  const auto checking = [](auto change) {
    return [=] {
      Recipe recipe;
      change(recipe);
      check_recipe(recipe);
    };
  };
  EXPECT_NO_THROW(check_recipe(Recipe{}));
  EXPECT_THAT(checking([](Recipe& r) { r.lora.alpha = 0; }),
              throws_naming<InputError>("lora_alpha", "0"));
  EXPECT_THAT(checking([](Recipe& r) { r.stack().num_layers = -1; }),
              ThrowsMessage<InputError>("num_layers is -1, expected a value between 0 and 1000"));
  EXPECT_THAT(checking([](Recipe& r) { r.stack().dropout = 1.5; }),
              ThrowsMessage<InputError>("dropout is 1.5, expected a value between 0 and 0.99"));
  EXPECT_THROW(checking([](Recipe& r) { r.training.lr = NAN; })(), InputError);
  EXPECT_THAT(checking([](Recipe& r) { r.training.momentum = 1.0; }),
              ThrowsMessage<InputError>("momentum is 1, expected a value between 0 and 0.9999999"));
  EXPECT_THAT(
      checking([](Recipe& r) { r.training.cooldown_fraction = 1.5; }),
      ThrowsMessage<InputError>("cooldown_fraction is 1.5, expected a value between 0 and 1"));
  EXPECT_THROW(checking([](Recipe& r) { r.training.max_steps = 0; })(), InputError);
}

TEST(Recipe, EveryFieldHasHelpGroupAndAUniqueKey) {
  std::set<std::string> keys;
  for (const auto& field : recipe_fields()) {
    EXPECT_STRNE(field.help, "");
    EXPECT_STRNE(field.group, "");
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
  }
}

}  // namespace
}  // namespace attend::train
