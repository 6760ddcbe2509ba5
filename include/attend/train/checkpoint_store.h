#pragma once

#include "attend/train/checkpoint.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// A checkpoint that was read from disk.
struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::filesystem::path path;
  std::vector<std::string> damaged;  ///< newer checkpoints that are damaged, and what is wrong
};

/// Snapshots of a run on disk, the latest two: a folder `step-000000400` for each, with the
/// weights, the rest of the state and the best weights so far, all as safetensors, the standing as
/// JSON, and a manifest with the size and the CRC-32C of each. A snapshot is written beside the
/// others under another name, synced, the manifest last, and then renamed: at any moment the newest
/// folder of that name is whole, or the one before it is still there.
///
///     CheckpointStore store("runs/demo/checkpoint");
///     store.save(trainer.snapshot());
///     if (auto found = store.load_latest()) trainer.restore(found->checkpoint);
class CheckpointStore {
 public:
  /// Makes nothing yet.
  explicit CheckpointStore(std::filesystem::path directory);

  /// Removes those of later steps, which are damaged if the run was resumed from an earlier one.
  /// Throws std::runtime_error, naming the file, if it cannot be written: then those before it are
  /// untouched.
  void save(const Checkpoint& checkpoint);

  /// The newest snapshot that is whole; nothing if there is none at all. Throws InputError, saying
  /// in what, if all that there are are damaged.
  std::optional<LoadedCheckpoint> load_latest() const;

  /// The newest by its name, unchecked; empty if there is none.
  std::filesystem::path latest() const;

 private:
  std::vector<std::filesystem::path> newest_first() const;

  std::filesystem::path directory_;
};

}  // namespace attend::train
