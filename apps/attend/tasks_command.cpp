#include "attend/train/task.h"
#include "commands.h"
#include "json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace attend::app {
namespace {

void list_tasks(bool json) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& task : train::tasks()) {
    const auto kind = std::string(model_kind(task.defaults.model));
    if (json) {
      all.push_back({{"name", task.name},
                     {"summary", task.summary},
                     {"model_kind", kind},
                     {"reads_file", task.reads_file()}});
    } else {
      fmt::print("{:<22}{:<21}{}\n", task.name, kind, task.summary);
    }
  }
  if (json) fmt::print("{}\n", json_text(all));
}

}  // namespace

void add_tasks_command(CLI::App& app) {
  auto* command = app.add_subcommand("tasks", "List the built-in tasks");
  auto json = std::make_shared<bool>(false);
  command
      ->add_flag(
          "--json", *json,
          "print a JSON array with an object per task: name, summary, model_kind, reads_file")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend tasks\n"
      "  attend train --task sort");
  command->callback([=] { list_tasks(*json); });
}

}  // namespace attend::app
