#pragma once

#include "attend/api.h"

#include <string>
#include <vector>

namespace attend::train {

/// A sentence of the task `senses`, followed by a full stop and the ambiguous word again.
struct SenseSentence {
  std::string words;  ///< words separated by spaces
  std::string sense;  ///< the token to predict next, for example bank=shore
};

/// All sentences of the task, without duplicates. The sentences form pairs. The two sentences of a
/// pair differ only in the words that determine the sense. So a model that ignores these words has
/// an accuracy of at most 50 %.
struct SenseSentences {
  std::vector<SenseSentence> training;
  std::vector<SenseSentence> validation;
  std::vector<std::string> tokens;  ///< all words and senses, sorted
};

/// Generates the sentences. The result is always the same.
ATTEND_API SenseSentences make_sense_sentences();

}  // namespace attend::train
