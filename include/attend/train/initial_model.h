#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/recipe.h"
#include "attend/train/run_directory.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace attend {

class PretrainedFolder;

namespace train {

/// A trained model with which a run can begin: that of a run, or a published one. See
/// `TrainingRunOptions::init_from`.
///
///     auto recipe = fine_tuning_recipe(InitialModel("Qwen3-0.6B").recipe(), "text");
class ATTEND_API InitialModel {
 public:
  /// Opens a run, or the folder of a published model; reads no weights. Throws InputError if `path`
  /// is neither, in the same cases as `RunDirectory::open` or `load_pretrained`, and for a
  /// published model that `published_run` refuses.
  explicit InitialModel(std::filesystem::path path);

  /// The path of the run or folder.
  const std::filesystem::path& path() const { return path_; }
  /// True for the folder of a published model.
  bool is_published() const { return folder_ != nullptr; }
  /// Returns the recipe of the run. That of a published language model has the task `text`, that of
  /// a published encoder the task `labelled-lines`.
  Recipe recipe() const;
  /// Returns the tokenizer of the run or folder.
  std::shared_ptr<const Tokenizer> tokenizer() const;
  /// Returns the names of the classes of a classifier, in its order; empty for other models.
  std::vector<std::string> classes() const;
  /// Returns the `run_id` of the run, or a checksum of the files of the published model.
  std::string id() const;
  /// Returns properties of the published files that may be unexpected; empty for a run.
  std::vector<std::string> warnings() const;
  /// Loads the model: the best weights of the run, or those of the folder in float32. A published
  /// encoder without classes becomes the body of a classifier, as in the class of transformers for
  /// the classification of sequences: the head reads the vector of the first token after a pooler.
  /// The adapters of a published model are merged, those of a run are not.
  ///
  /// `checksum`, if not null, is set to a CRC-32C of the weights as they are stored: those of the
  /// base model, the adapters and their scales. It does not depend on the machine, as merged
  /// weights do.
  Run load(std::string* checksum = nullptr) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const PretrainedFolder> folder_;  // null for a run
};

/// Returns a published model as a run, for `save_run`. The run has the same model, whose adapters
/// are merged and removed. `folder`: for messages. Throws InputError for a seq2seq, for which there
/// is no task, and for an encoder with a prompt, with `lowercase`, or with one class.
///
///     save_run(published_run(load_pretrained("Qwen3-0.6B"), "Qwen3-0.6B"), "runs/qwen3");
ATTEND_API Run published_run(const Pretrained& pretrained, const std::filesystem::path& folder);

}  // namespace train
}  // namespace attend
