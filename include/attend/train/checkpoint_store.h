#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Stores the two latest checkpoints of a run on disk. Each is a folder (`step-000000400`). The
/// folder contains the fields `weights`, `state` and `best` of the `Checkpoint` as safetensors
/// files, the field `trainer_state` as a JSON file, and a manifest with the id of the run and with
/// the size and CRC-32C of each of these files. A checkpoint is written to a temporary folder,
/// synced, and renamed, so a crash does not damage the previous checkpoint. If the best weights
/// have not changed since the previous checkpoint, best.safetensors is a hard link to the file in
/// the previous checkpoint.
///
///     CheckpointStore store("runs/demo/checkpoint");
///     store.save(trainer.checkpoint());
///     if (auto loaded = store.load_latest()) trainer.restore(*loaded);
class ATTEND_API CheckpointStore {
 public:
  /// Sets the directory; it is created by the first `save`. `run_id`: identity of the run, which
  /// the checkpoints contain.
  explicit CheckpointStore(std::filesystem::path directory, std::string run_id = {});

  /// Saves a checkpoint. Then keeps only this checkpoint and the latest checkpoint of an earlier
  /// step, and removes all others. Checkpoints of later steps are also removed. They exist if they
  /// were damaged when the run was resumed: `load_latest` skipped them and loaded an older one.
  /// Throws std::runtime_error if a file cannot be written; the message names the file, and no
  /// checkpoint is removed.
  void save(const Checkpoint& checkpoint);

  /// Loads the newest checkpoint that is not damaged; std::nullopt if the store is empty. Throws
  /// InputError with all errors if every checkpoint is damaged. Also throws InputError if a
  /// checkpoint contains another `run_id`; such a checkpoint is never skipped.
  std::optional<Checkpoint> load_latest() const;

  /// Returns the folder of the newest checkpoint, which may be damaged. Returns an empty path if
  /// there is no checkpoint.
  std::filesystem::path latest() const;

  /// Reads the state of training in the newest checkpoint; std::nullopt if there is no checkpoint.
  /// Throws in the same cases as `read_state`, except that it does not read the files with weights,
  /// so it takes the same time for a model of any size.
  std::optional<TrainerState> latest_state() const;

  /// True if `folder` is the folder of a checkpoint.
  static bool is_checkpoint(const std::filesystem::path& folder);
  /// Returns the `run_id` of a checkpoint. Throws InputError if the manifest is missing or damaged.
  static std::string run_id_of(const std::filesystem::path& folder);
  /// Reads the state of training from the folder of a checkpoint. Throws InputError if a file of
  /// the checkpoint is missing or damaged, or if the checkpoint contains another `run_id`; the
  /// message names the file or folder.
  TrainerState read_state(const std::filesystem::path& folder) const;

 private:
  /// The most recently written file of best weights.
  struct WrittenBest {
    std::map<std::string, torch::Tensor> weights;
    std::string checksum;  // checksum of `weights`, to detect in-place changes
    std::filesystem::path file;
    std::string entry;  // the file's entry in the manifest
  };

  std::vector<std::filesystem::path> newest_first() const;
  /// Makes `file` a hard link to the best weights of the previous checkpoint if these are the same
  /// as `best`. `checksum` is the checksum of `best`. Returns false if this object has saved no
  /// checkpoint yet, if the weights differ, or if the file of the previous checkpoint is damaged or
  /// cannot be linked. The caller must then write `best` to `file`.
  bool link_best(const std::map<std::string, torch::Tensor>& best, const std::string& checksum,
                 const std::filesystem::path& file) const;

  std::filesystem::path directory_;
  std::string run_id_;
  WrittenBest written_best_;
};

}  // namespace attend::train
