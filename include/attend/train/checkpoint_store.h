#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// A checkpoint read from disk.
struct LoadedCheckpoint {
  Checkpoint checkpoint;             ///< its content
  std::filesystem::path path;        ///< its folder
  std::vector<std::string> damaged;  ///< errors of newer checkpoints, which are damaged
};

/// Stores the two latest checkpoints of a run on disk, one folder each (`step-000000400`): weights,
/// state and best weights as safetensors, the trainer state as JSON, and a manifest with size and
/// CRC-32C of each file. A checkpoint is written to a temporary folder, synced, and renamed, so a
/// crash never leaves the store without a complete checkpoint. Best weights that are those of the
/// previous checkpoint are not written again: the file is a hard link to the previous one.
///
///     CheckpointStore store("runs/demo/checkpoint");
///     store.save(trainer.checkpoint());
///     if (auto loaded = store.load_latest()) trainer.restore(loaded->checkpoint);
class ATTEND_API CheckpointStore {
 public:
  /// Sets the directory; it is created by the first `save`.
  explicit CheckpointStore(std::filesystem::path directory);

  /// Saves a checkpoint and removes all but the two latest. Also removes those of later steps: they
  /// are damaged if the run was resumed from an earlier one. Throws std::runtime_error, naming the
  /// file, if it cannot be written; earlier checkpoints are kept then.
  void save(const Checkpoint& checkpoint);

  /// Loads the newest checkpoint that is not damaged; none if the store is empty. Throws InputError
  /// with all errors if every checkpoint is damaged.
  std::optional<LoadedCheckpoint> load_latest() const;

  /// Returns the folder of the newest checkpoint, unchecked; empty if there is none.
  std::filesystem::path latest() const;
  /// Returns the step of the newest checkpoint, unchecked; none if there is none.
  std::optional<int64_t> latest_step() const;

 private:
  /// The file of best weights that was written last.
  struct WrittenBest {
    std::map<std::string, torch::Tensor> weights;
    std::string checksum;        // of `weights`, to notice changes in place
    std::filesystem::path file;  // in its checkpoint
    std::string entry;           // of the file in the manifest
  };

  std::vector<std::filesystem::path> newest_first() const;
  /// Links the best weights of the previous checkpoint; false if they have to be written.
  bool link_best(const Checkpoint& checkpoint, const std::filesystem::path& file) const;

  std::filesystem::path directory_;
  WrittenBest written_best_;
};

}  // namespace attend::train
