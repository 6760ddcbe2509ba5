#pragma once

#include "attend/api.h"
#include "attend/train/observer.h"

#include <filesystem>
#include <memory>

namespace attend::train {

class AppendFile;

/// Writes metrics to a TensorBoard event file, `events.out.tfevents.TIME.HOST`. Each progress
/// report adds the scalars train/loss, train/lr, train/accuracy, train/grad_norm,
/// train/tokens_per_second and train/peak_memory (bytes), with the step. Each evaluation adds
/// val/loss and val/accuracy, with the step. An accuracy is omitted if `ExactMatch::accuracy` is
/// std::nullopt.
///
///     TensorBoardLog log("runs/demo/tensorboard");  // tensorboard --logdir runs
class ATTEND_API TensorBoardLog : public Observer {
 public:
  /// Creates `directory` and a new file in it. If `resumed_step` > 0, the run was resumed after
  /// this step: TensorBoard then ignores later steps in older files. The constructor, `on_progress`
  /// and `on_evaluation` throw std::runtime_error if the file cannot be written; the message names
  /// the file.
  explicit TensorBoardLog(const std::filesystem::path& directory, int64_t resumed_step = 0);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  std::shared_ptr<AppendFile> file_;
};

}  // namespace attend::train
