#include "attend/train/checkpoint_store.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/safetensors.h"
#include "attend/train/checksum.h"
#include "train/standing_json.h"
#include "train/synced_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kState = "state.safetensors";
constexpr const char* kStanding = "standing.json";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kPrefix = "step-";
constexpr const char* kPartial = ".partial";
constexpr const char* kReplaced = ".replaced";
constexpr std::size_t kKept = 2;

/// Says of each file how long it is and its checksum, and of itself that it is whole.
std::string manifest_of(const fs::path& folder) {
  nlohmann::ordered_json files;
  for (const char* name : {kWeights, kState, kStanding}) {
    files[name] = {{"bytes", fs::file_size(folder / name)},
                   {"crc32c", crc32c(read_bytes(folder / name))}};
  }
  const nlohmann::ordered_json manifest{{"version", 1}, {"files", files}};
  return manifest.dump(2) + "\n";
}

/// Throws InputError, naming the file, unless all is there that was written, unchanged.
void verify(const fs::path& folder) {
  const auto text = read_bytes(folder / kManifest);
  std::error_code missing;
  for (const char* name : {kWeights, kState, kStanding}) {
    if (!fs::is_regular_file(folder / name, missing)) {
      throw InputError(fmt::format("{}: no such file", (folder / name).string()));
    }
  }
  // A change of any file, of the manifest too, is a change of what the manifest should be.
  if (text == manifest_of(folder)) return;
  throw InputError(fmt::format("{}: sizes and checksums are not those of the files",
                               (folder / kManifest).string()));
}

Snapshot read(const fs::path& folder) {
  verify(folder);
  return {standing_from_json(read_bytes(folder / kStanding)),
          load_safetensors(folder / kWeights).tensors, load_safetensors(folder / kState).tensors};
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path directory) : directory_(std::move(directory)) {}

void CheckpointStore::save(const Snapshot& snapshot) {
  const auto partial = directory_ / kPartial;
  const auto replaced = directory_ / kReplaced;
  const auto target = directory_ / fmt::format("{}{:09}", kPrefix, snapshot.standing.step);
  fs::remove_all(partial);  // of a run that was killed
  fs::remove_all(replaced);
  fs::create_directories(partial);
  try {
    save_safetensors(partial / kWeights, {.tensors = snapshot.weights, .metadata = {}});
    save_safetensors(partial / kState, {.tensors = snapshot.state, .metadata = {}});
    replace_file(partial / kStanding, to_json(snapshot.standing));
    for (const char* name : {kWeights, kState, kStanding}) sync_to_disk(partial / name);
    replace_file(partial / kManifest, manifest_of(partial));
    sync_to_disk(partial / kManifest);
    sync_to_disk(partial);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  // One of the same step is there if it was damaged, and the run was resumed from the one before.
  if (fs::exists(target)) fs::rename(target, replaced);
  fs::rename(partial, target);
  sync_to_disk(directory_);
  fs::remove_all(replaced);
  const auto folders = newest_first();
  for (std::size_t i = kKept; i < folders.size(); ++i) fs::remove_all(folders[i]);
}

std::optional<CheckpointStore::Found> CheckpointStore::load_latest() const {
  std::vector<std::string> damaged;
  for (const auto& folder : newest_first()) {
    try {
      return Found{read(folder), folder, damaged};
    } catch (const InputError& error) {
      damaged.emplace_back(error.what());
    }
  }
  if (damaged.empty()) return std::nullopt;
  throw InputError(fmt::format("no checkpoint is whole: {}", fmt::join(damaged, "; ")));
}

fs::path CheckpointStore::latest() const {
  const auto folders = newest_first();
  return folders.empty() ? fs::path() : folders.front();
}

std::vector<fs::path> CheckpointStore::newest_first() const {
  std::vector<fs::path> folders;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    if (entry.path().filename().string().starts_with(kPrefix)) folders.push_back(entry.path());
  }
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

}  // namespace attend::train
