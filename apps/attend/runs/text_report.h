#pragma once

#include "attend/models/model.h"
#include "attend/train/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attend::app {

/// Attention weights of the last token of a text.
struct LastTokenAttention {
  std::string text;
  std::string prediction;  ///< predicted next token
  std::vector<std::string> tokens = {};
  std::vector<double> weights = {};  ///< for each token, in the last layer, averaged over the heads
};

/// The parts of report.txt, the report of a run as text. A part is empty if the task has no words,
/// texts or examples for it.
struct TextReport {
  std::string neighbors;                      ///< nearest neighbors, also before training
  std::vector<LastTokenAttention> attention;  ///< for each text of `Task::probe_texts`
  std::string samples;  ///< for each example of `Task::samples`, the model's answer and whether it
                        ///< is correct, or a continuation if the example has no answer

  /// Returns all parts as text. With `colors`, attention weights are shown on a background of 256
  /// colors instead of bars. Returns an empty string if all parts are empty.
  std::string text(bool colors) const;
};

/// Returns a line for each word of `Task::probe_words`. The line lists the 4 other tokens whose
/// embeddings have the largest cosine similarity to the word's embedding, and these similarities.
/// Returns an empty string if the task has no probe words.
std::string nearest_neighbors(Model& model, const train::Task& task);

/// Runs the model and returns its report. `neighbors_before`: result of `nearest_neighbors` before
/// training; empty if unknown. `seed` seeds the sampling of continuations.
TextReport make_text_report(Model& model, const train::Task& task,
                            const std::string& neighbors_before, int64_t seed);

}  // namespace attend::app
