#pragma once

#include "attend/api.h"
#include "attend/pretrained/pretrained.h"

#include <filesystem>
#include <memory>

namespace attend {

/// Makes a published encoder the body of a new classifier, as the classes for the classification of
/// sequences in transformers: the vector of the first token goes through a pooler.
ATTEND_API void set_classifier_body(SequenceClassifierConfig& encoder);

/// A folder of a published model, or of an adapter that names its base model, whose files have been
/// checked, except the values of its weights and the weights of the adapter.
class ATTEND_API PretrainedFolder {
 public:
  /// What the model is used for.
  enum class Use {
    as_published,
    /// An encoder becomes the body of a new classifier, as in the class for the classification of
    /// sequences in transformers: the vector of the first token goes through a pooler, if the files
    /// contain its weights. If there is no such class, only the normalization is left out.
    classifier,
  };

  /// Throws InputError in the same cases as `load_pretrained`.
  explicit PretrainedFolder(const std::filesystem::path& folder, Use use = Use::as_published);

  /// The folder without its model, which is null.
  const Pretrained& description() const;
  /// The config of the model. That of `Use::classifier` has a pooler even if the files do not
  /// contain its weights, and the model of `load` therefore has none. If the files contain the head
  /// of a masked language model, that of `load` also has it.
  const ModelConfig& config() const;
  /// The dtype of the model of `load` without the option `dtype`.
  torch::ScalarType dtype() const;
  /// Loads the model.
  Pretrained load(const PretrainedOptions& options = {}) const;

 private:
  struct Content;
  std::shared_ptr<const Content> content_;
};

}  // namespace attend
