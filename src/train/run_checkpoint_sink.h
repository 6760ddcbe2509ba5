#pragma once

#include "attend/api.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/trainer.h"

#include <filesystem>
#include <map>
#include <string>

namespace attend::train {

/// Key of the checksum in the metadata of a run's best weights.
inline constexpr const char* kWeightsChecksum = "crc32c";

/// Saves checkpoints and best weights in a run directory.
class ATTEND_API RunCheckpointSink : public CheckpointSink {
 public:
  /// `directory` is the path of the run.
  explicit RunCheckpointSink(const std::filesystem::path& directory);
  void save_best(const std::map<std::string, torch::Tensor>& weights) override;
  void save(const Checkpoint& checkpoint) override;
  std::string latest_path() const override;

 private:
  std::filesystem::path directory_;
  CheckpointStore checkpoints_;
};

}  // namespace attend::train
