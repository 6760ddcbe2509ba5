#include "train/run_checkpoint_sink.h"

#include "attend/io/safetensors.h"
#include "attend/train/run_directory.h"
#include "train/checksum.h"

namespace attend::train {

RunCheckpointSink::RunCheckpointSink(const std::filesystem::path& directory)
    : directory_(directory), checkpoints_(directory / RunFiles::checkpoints) {}

void RunCheckpointSink::save_best(const std::map<std::string, torch::Tensor>& weights) {
  save_safetensors(directory_ / RunFiles::model,
                   {.tensors = weights,
                    .metadata = {{"format", "pt"}, {kWeightsChecksum, checksum_of(weights)}}});
}

void RunCheckpointSink::save(const Checkpoint& checkpoint) {
  checkpoints_.save(checkpoint);
}

std::string RunCheckpointSink::latest_path() const {
  return checkpoints_.latest().string();
}

}  // namespace attend::train
