#include "train/recipe_card.h"

#include "attend/input_error.h"
#include "train/recipe_toml.h"

#include <fmt/format.h>

#include <cmath>

namespace attend::train {

RecipeCard read_recipe_card(const std::filesystem::path& path) {
  const auto table = parse_recipe(path);
  if (!table.contains(kCard)) {
    throw InputError(fmt::format("{}: the table [{}] is missing", path.string(), kCard));
  }
  RecipeCard card;
  const auto read_at = [&](const std::string& name, auto& target) {
    if (const auto node = table.at_path(name)) {
      assign(*node.node(), fmt::format("{}: {}", path.string(), name), &target);
    }
  };
  const auto read = [&](const char* key, auto& target) {
    read_at(fmt::format("{}.{}", kCard, key), target);
  };
  const auto read_optional = [&](const char* key, std::optional<double>& target) {
    double value = NAN;
    read(key, value);
    if (!std::isnan(value)) target = value;
  };
  read_at("task", card.task);
  read("summary", card.summary);
  read("device", card.device);
  read("seconds", card.seconds);
  read_optional("val_loss", card.val_loss);
  read_optional("val_accuracy", card.val_accuracy);
  return card;
}

}  // namespace attend::train
