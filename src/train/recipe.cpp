// Recipes: their parts, their values as text, and checks. The table of the values is in
// recipe_fields.cpp.
#include "attend/train/recipe.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

struct CheckRange {
  const RecipeField& field;

  void operator()(std::monostate) const {}
  template <typename T>
  void operator()(const T* value) const {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const auto number = static_cast<double>(*value);
      if (!(number >= field.min && number <= field.max)) {  // true for NaN
        throw InputError(fmt::format("{} is {}, expected a value between {} and {}", field.key,
                                     *value, field.min, field.max));
      }
    }
  }
};

}  // namespace

std::string_view model_kind(const ModelConfig& config) {
  return kModelKinds.at(config.index());
}

StackConfig& Recipe::stack() {
  return std::visit([](auto& config) -> StackConfig& { return config.stack; }, model);
}

const StackConfig& Recipe::stack() const {
  return std::visit([](const auto& config) -> const StackConfig& { return config.stack; }, model);
}

int64_t& Recipe::max_seq_len() {
  return std::visit([](auto& config) -> int64_t& { return config.max_seq_len; }, model);
}

int64_t Recipe::max_seq_len() const {
  return std::visit([](const auto& config) { return config.max_seq_len; }, model);
}

std::string RecipeField::flag() const {
  std::string flag = std::string("--") + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string value_text(const RecipeField& field, const Recipe& recipe) {
  Recipe values = recipe;  // fields return mutable references
  return std::visit(
      [](auto value) {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return std::string();
        else if constexpr (std::is_enum_v<T>)
          return std::string(to_string(*value));
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(*value ? "on" : "off");
        else
          return fmt::format("{}", *value);
      },
      field.ref(values));
}

void check_recipe(const Recipe& recipe) {
  Recipe values = recipe;  // fields return mutable references
  for (const auto& field : recipe_fields()) std::visit(CheckRange{field}, field.ref(values));
  const auto& stack = recipe.stack();
  if (stack.head_dim == 0 && stack.embed_dim % stack.num_heads != 0) {
    throw InputError(fmt::format("embed_dim ({}) must be divisible by num_heads ({})",
                                 stack.embed_dim, stack.num_heads));
  }
  if (stack.num_kv_heads != 0 && stack.num_heads % stack.num_kv_heads != 0) {
    throw InputError(fmt::format("num_heads ({}) must be divisible by num_kv_heads ({})",
                                 stack.num_heads, stack.num_kv_heads));
  }
}

void check_training_config(const TrainingConfig& config) {
  Recipe recipe;
  recipe.training = config;
  check_recipe(recipe);
}

}  // namespace attend::train
