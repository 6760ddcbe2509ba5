#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attend::train {

/// A named entity: adjacent words of one type.
struct Entity {
  std::string type;   ///< such as "PER"
  int64_t begin = 0;  ///< index of the first word
  int64_t end = 0;    ///< index after the last word

  /// True if type and words are equal.
  bool operator==(const Entity&) const = default;
};

/// Returns the types of entities in tags such as "B-PER", "I-PER" and "O", in code point order.
/// Empty unless each tag is "O", or B, I, E or S, a hyphen and a type: then the tags are no
/// entities, but, for example, parts of speech.
ATTEND_API std::vector<std::string> entity_types(const std::vector<std::string>& tags);

/// Returns the entities of a sentence, given the tag of each word in the scheme IOB2, IOB1 or
/// IOBES. An entity may also begin with I, if no word of its type precedes, as in conlleval (Tjong
/// Kim Sang and Buchholz 2000) and in seqeval without its strict mode.
///
///     entities_of({"B-PER", "I-PER", "O"}) == std::vector<Entity>{{"PER", 0, 2}};
ATTEND_API std::vector<Entity> entities_of(const std::vector<std::string>& tags);

/// Returns the confusion matrices of the N `entity_types(tags)`, (N, 2, 2) int64, as
/// `multi_label_confusion_matrix`: element (n, i, j) is the number of entities of type n that are
/// in the targets (i) and predicted (j). An entity is predicted if its type and all its words are.
/// There is no number of entities that are neither: element (n, 0, 0) is 0.
///
/// `predicted` (B, T) and `targets` (B, T): indices of `tags`, int64; words whose target is
/// `kIgnoreIndex` are left out.
ATTEND_API torch::Tensor entity_confusion_matrix(const torch::Tensor& predicted,
                                                 const torch::Tensor& targets,
                                                 const std::vector<std::string>& tags);

}  // namespace attend::train
