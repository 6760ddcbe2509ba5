#include "attend/train/save_run.h"

#include "attend/io/safetensors.h"
#include "io/files.h"
#include "io/new_folder.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <utility>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// Moves a run to a folder that exists, the recipe last: a folder with a recipe is a run.
void move_run(const fs::path& from, const fs::path& to, bool overwrite) {
  const auto lock = lock_new_run(to, overwrite);
  for (const auto& entry : fs::directory_iterator(from)) {
    const auto name = entry.path().filename();
    if (name != RunLock::kFile && name != RunFiles::recipe) fs::rename(entry.path(), to / name);
  }
  fs::rename(from / RunFiles::recipe, to / RunFiles::recipe);
  sync_to_disk(to);
  delete_replaced(to);
}

}  // namespace

void save_run(const Run& run, const fs::path& path, bool overwrite) {
  RunRecord record{.data_checksum = run.data_checksum,
                   .classes = run.classes,
                   .fixed = fixed_values(run.recipe),
                   .texts = run.tokenizer->files()};
  record.texts[RunFiles::recipe] = to_toml(run.recipe);
  RunDirectory::check_can_create(path, overwrite);  // before the weights are written
  NewFolder folder(path);
  RunDirectory::create(folder.path(), std::move(record))
      .save_best(state_dict(module_of(run.model)));
  std::error_code missing;
  const bool is_new = !fs::exists(path, missing) || fs::is_empty(path, missing);
  if (is_new && !RunDirectory::exists(RunDirectory::replaced(path)))
    folder.finish();
  else
    move_run(folder.path(), path, overwrite);
}

}  // namespace attend::train
