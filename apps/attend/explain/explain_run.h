#pragma once

#include "explain/explained_text.h"
#include "explain/explanation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// What to explain of a run. Layers, heads and tokens are counted from 1.
struct RunQuestion {
  std::string token;  ///< token to follow: its label or its number; empty = the last token
  int64_t layer = 0;  ///< 0 = the last layer
  int64_t head = 1;
  // Changes, of which the last step shows the effect.
  std::vector<std::string> masks = {};     ///< tokens of the text to which no token may attend
  std::vector<std::string> no_heads = {};  ///< heads whose output is set to zero: "LAYER.HEAD"
  std::vector<std::string> swaps = {};     ///< "TOKEN=NEW": replaces a token of the text
};

/// Explains how the model of a run processes a text: embeddings, one attention head, the rest of
/// its block, and the prediction. The numbers are those of the model. For a Seq2Seq, explains a
/// layer of the decoder, with its attention to the text; `token` is then a token of the answer, and
/// `no_heads` are heads of the cross-attention. If the question has changes, runs the model again
/// with them, and compares weights and prediction.
class RunExplainer {
 public:
  /// Runs the model. Throws InputError for a token or a change that does not exist.
  RunExplainer(ExplainedText text, RunQuestion question);

  /// Explains the layer and the head of the question. Throws InputError if they do not exist.
  Explanation explain() const { return explain(question_.layer, question_.head); }
  /// Explains another layer and head.
  Explanation explain(int64_t layer, int64_t head) const;

 private:
  ExplainedText text_;
  RunQuestion question_;  // with a layer
  int64_t row_;           // of the token that is followed
  ForwardPass pass_;
  std::optional<ForwardPass> changed_;  // with the changes of the question
};

}  // namespace attend::app
