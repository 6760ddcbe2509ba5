// Fuzz target: a recipe. A recipe that is read must be the same after it was written.
#include "attend/train/recipe.h"

#include "attend/train/recipe_fields.h"
#include "fuzz/fuzz.h"
#include "io/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attend::train;
  return attend::fuzz::check(data, size, [](auto text) {
    attend::check_is_text(text, "recipe");
    const RecipeText file{"recipe", std::string(text)};
    parse_task_of_recipe(file, {});
    const auto recipe = parse_recipe(file, {});
    const auto written = to_toml(recipe);
    if (to_toml(parse_recipe({"written recipe", written}, {})) != written) std::abort();
    for (const auto& field : recipe_fields()) check_range(field, recipe, field.key);
  });
}
