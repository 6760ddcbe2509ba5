#include "attend/train/recipe.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/task.h"
#include "support/temporary_directory.h"

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

TEST_F(RecipeFile, RoundTripsEveryTasksDefaults) {
  for (const auto& task : tasks()) {
    EXPECT_EQ(to_toml(read(to_toml(task.defaults))), to_toml(task.defaults)) << task.name;
  }
}

TEST_F(RecipeFile, RoundTripsValuesThatAreNoDefaults) {
  Recipe recipe;
  recipe.text = "a \"quoted\" \\ path\n";
  recipe.model.tied = false;
  recipe.model.positions = Positions::sinusoidal;
  recipe.model.norm_order = NormOrder::post;
  recipe.training.lr = 0.1 + 0.2;  // needs all 17 digits
  recipe.training.seed = 9007199254740993;
  const auto again = read(to_toml(recipe));
  EXPECT_EQ(again.text, recipe.text);
  EXPECT_FALSE(again.model.tied);
  EXPECT_EQ(again.model.positions, Positions::sinusoidal);
  EXPECT_EQ(again.model.norm_order, NormOrder::post);
  EXPECT_EQ(again.training.lr, recipe.training.lr);
  EXPECT_EQ(again.training.seed, recipe.training.seed);
}

TEST_F(RecipeFile, KeepsWhatItDoesNotName) {
  const auto recipe = read("[model]\nlayers = 7\n");
  EXPECT_EQ(recipe.model.layers, 7);
  EXPECT_EQ(recipe.model.embed_dim, Recipe{}.model.embed_dim);
}

TEST_F(RecipeFile, WholeNumbersMayStandForRealOnes) {
  EXPECT_EQ(read("[training]\nlr = 1\n").training.lr, 1.0);
}

TEST_F(RecipeFile, NamesTheNearestKeyForAnUnknownOne) {
  EXPECT_THAT(reading("[model]\nlayer = 2\n"),
              ThrowsMessage<InputError>(HasSubstr("unknown key 'model.layer'; did you mean "
                                                  "'model.layers'?")));
  EXPECT_THAT(reading("tsk = 'senses'\n"), ThrowsMessage<InputError>(HasSubstr("'task'")));
}

TEST_F(RecipeFile, NamesWhatItFoundAndExpected) {
  EXPECT_THAT(reading("[model]\nlayers = 'two'\n"),
              ThrowsMessage<InputError>(HasSubstr("model.layers: expected a whole number")));
  EXPECT_THAT(reading("[model]\nlayers = 2.5\n"),
              ThrowsMessage<InputError>(HasSubstr("found 2.5")));
  EXPECT_THAT(reading("[model]\ntied = 1\n"),
              ThrowsMessage<InputError>(HasSubstr("true or false")));
  EXPECT_THAT(reading("[model]\npositions = 'rotten'\n"),
              ThrowsMessage<InputError>(HasSubstr("one of none, learned, sinusoidal")));
  EXPECT_THAT(reading("[model]\nlayers = [1]\n"), ThrowsMessage<InputError>(HasSubstr("an array")));
  EXPECT_THAT(reading("model = 3\n"), ThrowsMessage<InputError>(HasSubstr("unknown key 'model'")));
  EXPECT_THAT(reading("layers = = 3\n"), ThrowsMessage<InputError>(HasSubstr("not TOML")));
}

TEST(Recipe, ChecksNameTheValueAndItsBounds) {
  const auto checking = [](auto change) {
    return [=] {
      Recipe recipe;
      change(recipe);
      check_recipe(recipe);
    };
  };
  EXPECT_NO_THROW(check_recipe(Recipe{}));
  EXPECT_THAT(checking([](Recipe& r) { r.model.embed_dim = 10, r.model.heads = 3; }),
              ThrowsMessage<InputError>("embed_dim (10) must be divisible by heads (3)"));
  EXPECT_THAT(checking([](Recipe& r) { r.model.layers = -1; }),
              ThrowsMessage<InputError>("layers (-1) must be between 0 and 1000"));
  EXPECT_THAT(checking([](Recipe& r) { r.model.dropout = 1.5; }),
              ThrowsMessage<InputError>("dropout (1.5) must be between 0 and 0.99"));
  EXPECT_THROW(checking([](Recipe& r) { r.training.lr = NAN; })(), InputError);
  EXPECT_THROW(checking([](Recipe& r) { r.training.steps = 0; })(), InputError);
}

TEST(Recipe, EveryFieldHasHelpAndAUniqueKey) {
  std::set<std::string> keys;
  for (const auto& field : recipe_fields()) {
    EXPECT_STRNE(field.help, "");
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
  }
}

}  // namespace
}  // namespace attend::train
