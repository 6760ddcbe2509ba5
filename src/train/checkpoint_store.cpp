#include "attend/train/checkpoint_store.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "io/files.h"
#include "train/checksum.h"
#include "train/run_record.h"
#include "train/trainer_state_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kState = "state.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kTrainerState = "trainer_state.json";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kPrefix = "step-";
constexpr const char* kPartial = ".partial";
constexpr const char* kReplaced = ".replaced";
constexpr std::size_t kMaxCheckpoints = 2;
constexpr std::array kFiles{kWeights, kState, kBest, kTrainerState};

/// Returns the size and checksum of a file.
Json entry_of(const fs::path& file) {
  const auto checksum = crc32c_of_file(file);  // throws if the file is missing
  return {{"bytes", fs::file_size(file)}, {"crc32c", checksum}};
}

/// Returns the id of the run, and the size and checksum of each file of a checkpoint. For a file
/// that has an entry in `known`, returns this entry and does not read the file.
Json manifest_of(const fs::path& folder, const std::string& run_id, const Json& known = {}) {
  Json files;
  for (const char* name : kFiles)
    files[name] = known.contains(name) ? known[name] : entry_of(folder / name);
  return {{"version", 1}, {kRunId, run_id}, {"files", std::move(files)}};
}

/// Parses the manifest `text` of the checkpoint in `folder`. Throws InputError with the name of the
/// file if it is damaged.
Json parse_manifest(const fs::path& folder, const std::string& text) {
  return with_source((folder / kManifest).string(), [&] { return parse_with_checksum(text); });
}

[[noreturn]] void throw_damaged(const fs::path& file) {
  throw InputError(
      fmt::format("{}: damaged: size or checksum differs from {}", file.string(), kManifest));
}

/// Returns the entry of a file in a manifest; null if there is none.
Json entry_in(const Json& manifest, const char* name) {
  const auto place = Json::json_pointer("/files") / name;
  return manifest.contains(place) ? manifest[place] : Json(nullptr);
}

/// Throws InputError if a file's size or checksum differs from the manifest, or if the manifest is
/// damaged or belongs to another run. The message contains the name of the damaged file.
void verify(const fs::path& folder, const std::string& run_id) {
  const auto text = read_bytes(folder / kManifest);
  const auto written = parse_manifest(folder, text);
  check_run_id(folder, run_id_in(written), run_id);
  const auto found = manifest_of(folder, run_id);
  if (text == to_text_with_checksum(found)) return;
  for (const char* name : kFiles) {
    const auto entry = entry_in(written, name);
    if (!entry.is_null() && entry != entry_in(found, name)) throw_damaged(folder / name);
  }
  throw InputError(fmt::format("{}: damaged", (folder / kManifest).string()));
}

/// True if `name` is the folder name of a checkpoint, for example step-000000400.
bool is_folder_name(std::string_view name) {
  const std::string_view prefix = kPrefix;
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

/// True if both maps contain the same tensor objects (equal values are not enough).
bool are_same(const std::map<std::string, torch::Tensor>& one,
              const std::map<std::string, torch::Tensor>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first && a.second.is_same(b.second);
                    });
}

TrainerState read_trainer_state(const fs::path& folder) {
  const auto file = folder / kTrainerState;
  return with_source(file.string(), [&] { return trainer_state_from_json(read_bytes(file)); });
}

Checkpoint read(const fs::path& folder, const std::string& run_id) {
  verify(folder, run_id);
  return {.trainer_state = read_trainer_state(folder),
          .weights = load_safetensors(folder / kWeights).tensors,
          .state = load_safetensors(folder / kState).tensors,
          .best = load_safetensors(folder / kBest).tensors};
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path directory, std::string run_id)
    : directory_(std::move(directory)), run_id_(std::move(run_id)) {}

void CheckpointStore::save(const Checkpoint& checkpoint) {
  const auto partial = directory_ / kPartial;
  const auto replaced = directory_ / kReplaced;
  const auto target = directory_ / fmt::format("{}{:09}", kPrefix, checkpoint.trainer_state.step);
  fs::remove_all(partial);  // a killed process may have left this folder
  fs::remove_all(replaced);
  fs::create_directories(partial);
  const auto best_checksum = checksum_of(checkpoint.best);
  Json manifest;
  try {
    save_safetensors(partial / kWeights, {.tensors = checkpoint.weights, .metadata = {}});
    save_safetensors(partial / kState, {.tensors = checkpoint.state, .metadata = {}});
    Json known;
    if (link_best(checkpoint.best, best_checksum, partial / kBest))
      known[kBest] = Json::parse(written_best_.entry);
    else
      save_safetensors(partial / kBest, {.tensors = checkpoint.best, .metadata = {}});
    replace_file(partial / kTrainerState, to_json(checkpoint.trainer_state));
    manifest = manifest_of(partial, run_id_, known);
    replace_file(partial / kManifest, to_text_with_checksum(manifest));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  // If the run was resumed from an older checkpoint, a damaged checkpoint of this step may exist.
  if (fs::exists(target)) fs::rename(target, replaced);
  fs::rename(partial, target);
  sync_to_disk(directory_);
  fs::remove_all(replaced);
  written_best_ = {checkpoint.best, best_checksum, target / kBest, manifest["files"][kBest].dump()};
  // Removes checkpoints newer than `target`. They are damaged: load_latest() skipped them when the
  // run was resumed. Keeps the newest kMaxCheckpoints of the other checkpoints.
  std::size_t kept = 0;
  for (const auto& folder : newest_first()) {
    const bool newer = kept == 0 && folder.filename() != target.filename();
    if (newer || kept == kMaxCheckpoints) {
      fs::remove_all(folder);
    } else {
      ++kept;
    }
  }
}

bool CheckpointStore::link_best(const std::map<std::string, torch::Tensor>& best,
                                const std::string& checksum, const fs::path& file) const {
  if (written_best_.file.empty() || !are_same(best, written_best_.weights) ||
      checksum != written_best_.checksum) {
    return false;
  }
  std::error_code error;  // set if, for example, the file system has no hard links
  fs::create_hard_link(written_best_.file, file, error);
  if (error) return false;
  if (entry_of(file).dump() == written_best_.entry) return true;
  fs::remove(file);  // the linked file was damaged after it was written
  return false;
}

std::optional<Checkpoint> CheckpointStore::load_latest() const {
  std::vector<std::string> damaged;
  for (const auto& folder : newest_first()) {
    const auto is_intact = [&](const std::function<void()>& read) {
      try {
        read();
        return true;
      } catch (const InputError& error) {
        damaged.emplace_back(error.what());
        return false;
      }
    };
    std::string run_id;
    if (!is_intact([&] { run_id = run_id_of(folder); })) continue;
    check_run_id(folder, run_id, run_id_);
    Checkpoint checkpoint;
    if (!is_intact([&] { checkpoint = read(folder, run_id_); })) continue;
    checkpoint.path = folder;
    checkpoint.damaged = std::move(damaged);
    return checkpoint;
  }
  if (damaged.empty()) return std::nullopt;
  throw InputError(fmt::format("all checkpoints are damaged: {}", fmt::join(damaged, "; ")));
}

fs::path CheckpointStore::latest() const {
  const auto folders = newest_first();
  return folders.empty() ? fs::path() : folders.front();
}

std::optional<TrainerState> CheckpointStore::latest_state() const {
  const auto folder = latest();
  if (folder.empty()) return std::nullopt;
  const auto manifest = parse_manifest(folder, read_bytes(folder / kManifest));
  check_run_id(folder, run_id_in(manifest), run_id_);
  if (entry_in(manifest, kTrainerState) != entry_of(folder / kTrainerState))
    throw_damaged(folder / kTrainerState);
  return read_trainer_state(folder);
}

bool CheckpointStore::is_checkpoint(const fs::path& folder) {
  return fs::exists(folder / kManifest) && fs::exists(folder / kTrainerState);
}

std::string CheckpointStore::run_id_of(const fs::path& folder) {
  return run_id_in(parse_manifest(folder, read_bytes(folder / kManifest)));
}

TrainerState CheckpointStore::read_state(const fs::path& folder) const {
  verify(folder, run_id_);
  return read_trainer_state(folder);
}

std::vector<fs::path> CheckpointStore::newest_first() const {
  std::vector<fs::path> folders;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    if (is_folder_name(entry.path().filename().string())) folders.push_back(entry.path());
  }
  // Longer names come first, since a step of 1e9 or more has more than nine digits.
  std::sort(folders.begin(), folders.end(), [](const fs::path& one, const fs::path& other) {
    const auto& a = one.native();
    const auto& b = other.native();
    return a.size() != b.size() ? a.size() > b.size() : a > b;
  });
  return folders;
}

}  // namespace attend::train
