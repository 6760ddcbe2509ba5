#pragma once

#include "attend/api.h"

#include <string>
#include <vector>

namespace attend::train {

/// One sentence of the task `senses`: its words end in a full stop and the ambiguous word again.
struct SenseSentence {
  std::string words;  ///< parted by spaces
  std::string sense;  ///< the token to predict after them, as in bank=shore
};

/// All sentences of the task, no two alike, in pairs: the two differ only in the words that tell
/// the sense. So what does not look at those words is right in exactly half of the cases at most.
/// No held-out sentence is among those to train on.
struct SenseSentences {
  std::vector<SenseSentence> training;
  std::vector<SenseSentence> held_out;
  std::vector<std::string> tokens;  ///< every word and sense that occurs, sorted
};

/// Makes them, the same ones every time.
ATTEND_API SenseSentences make_sense_sentences();

}  // namespace attend::train
