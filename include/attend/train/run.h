#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/io/tokenizer.h"
#include "attend/train/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// Selects the weights of a run.
enum class Weights {
  best,  ///< weights with the best validation loss
  last,  ///< weights of the latest checkpoint
};

/// A trained model of this library with its recipe, tokenizer and classes; see
/// `RunDirectory::load`.
struct ATTEND_API Run {
  Recipe recipe;                               ///< values with which the model was trained
  std::shared_ptr<const Tokenizer> tokenizer;  ///< as saved with the run
  std::vector<std::string> classes;            ///< class names of a classifier
  std::string data_checksum;                   ///< `Task::data_checksum` of the training data
  Model model;                                 ///< in eval mode

  /// Returns the task of the run with its data. Throws InputError if vocabulary, classes or data
  /// have changed since training, for example because the text file was edited.
  std::unique_ptr<Task> make_task() const;
};

}  // namespace attend::train

namespace attend {

/// Names of `train::Weights`.
template <>
struct EnumNames<train::Weights> {
  static constexpr std::array<std::string_view, 2> names{"best", "last"};
};

}  // namespace attend
