#include "attend/train/run.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::train {

std::unique_ptr<Task> Run::make_task() const {
  auto task = train::make_task(recipe, tokenizer);
  const auto& data = recipe.text.empty() ? recipe.task : recipe.text;
  if (task->tokenizer().files() != tokenizer->files()) {
    throw InputError(
        fmt::format("the vocabulary of '{}' ({} tokens) differs from the vocabulary of the run ({} "
                    "tokens)",
                    data, task->tokenizer().size(), tokenizer->size()));
  }
  const auto found_classes = task->classes();
  if (found_classes != classes) {
    throw InputError(
        fmt::format("{}: the classes differ from the classes of the run: found [{}], expected [{}]",
                    data, fmt::join(found_classes, ", "), fmt::join(classes, ", ")));
  }
  if (task->data_checksum() != data_checksum) {
    throw InputError(
        fmt::format("{}: changed since training (checksum {}, expected {}), so the split of "
                    "this data into training and validation data is unknown",
                    data, task->data_checksum(), data_checksum));
  }
  return task;
}

}  // namespace attend::train
