#include "attend/train/recipe.h"
#include "commands.h"
#include "json_text.h"
#include "recipes/recipe_files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace attend::app {
namespace {

using Json = nlohmann::ordered_json;

std::string expected_text(const train::RecipeCard& card) {
  std::string text;
  if (card.val_accuracy) text += fmt::format("acc {:.1f}%", *card.val_accuracy * 100);
  if (card.val_loss) {
    text += fmt::format("{}val loss {:.3g}", text.empty() ? "" : ", ", *card.val_loss);
  }
  return text;
}

Json to_json(const std::filesystem::path& path, const train::RecipeCard& card) {
  Json json{{"name", path.stem().string()}, {"path", path.string()}, {"task", card.task},
            {"summary", card.summary},      {"device", card.device}, {"seconds", card.seconds}};
  if (card.val_loss) json["val_loss"] = *card.val_loss;
  if (card.val_accuracy) json["val_accuracy"] = *card.val_accuracy;
  return json;
}

void list_models(bool json) {
  auto all = Json::array();
  for (const auto& path : shipped_recipes()) {
    const auto card = train::read_recipe_card(path);
    if (json) {
      all.push_back(to_json(path, card));
    } else {
      fmt::print("{:<22}{}\n{:<22}expected: {} ({:.0f} s on {})\n", path.stem().string(),
                 card.summary, "", expected_text(card), card.seconds, card.device);
    }
  }
  if (json) fmt::print("{}\n", json_text(all));
}

}  // namespace

void add_models_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("models", "List the shipped recipes with their expected results");
  auto json = std::make_shared<bool>(false);
  command
      ->add_flag("--json", *json,
                 "print a JSON array with an object per recipe: name, path, task, summary, device, "
                 "seconds, val_loss, "
                 "val_accuracy (0 to 1)")
      ->group("Output");
  command->footer(
      "Lists the recipes in the folder $ATTEND_MODELS if this environment variable is set.\n\n"
      "Examples:\n"
      "  attend models\n"
      "  attend train addition --out runs/addition");
  command->callback([=] { list_models(*json); });
}

}  // namespace attend::app
