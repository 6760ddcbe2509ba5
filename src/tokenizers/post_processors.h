#pragma once

#include "attend/tokenizers/text_tokenizer.h"
#include "tokenizers/fields.h"

#include <string>
#include <variant>
#include <vector>

namespace attend::tokenizers {

/// The post-processors of tokenizer.json, with the names that they have there. Each adds special
/// tokens to the encodings of one or two texts.
namespace post_processors {

struct BertProcessing {
  int64_t cls;
  int64_t sep;
};
struct RobertaProcessing {
  int64_t cls;
  int64_t sep;
};
struct TemplateProcessing {
  struct Item {
    int text = -1;  ///< 0 or 1; -1 for special tokens
    std::vector<int64_t> ids;
    int64_t type_id = 0;
  };
  std::vector<Item> single;
  std::vector<Item> pair;
};
struct ByteLevel {};  ///< changes only offsets, which this library does not compute

}  // namespace post_processors

using PostProcessor =
    std::variant<post_processors::BertProcessing, post_processors::RobertaProcessing,
                 post_processors::TemplateProcessing, post_processors::ByteLevel>;

/// Reads the key `post_processor`, which may be null. A Sequence becomes its elements.
std::vector<PostProcessor> parse_post_processors(JsonFields& root);

/// Returns the number of special tokens that are added to one text or, if `is_pair`, to two texts.
int64_t count_special_tokens(const std::vector<PostProcessor>& parts, bool is_pair);

/// Returns the encoding of all texts with special tokens.
Encoding post_process(const std::vector<PostProcessor>& parts, std::vector<Encoding> encodings,
                      bool add_special_tokens);

}  // namespace attend::tokenizers
