#pragma once

#include "explain/explain_run.h"
#include "explain/explained_text.h"

#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// The changes of a question (`masks`, `no_heads`, `swaps`), made to a text and to the model that
/// reads it. The destructor undoes the changes to the model.
class WhatIf {
 public:
  /// Throws InputError for a token, layer or head that does not exist, and for a new token that is
  /// not exactly one token.
  WhatIf(const RunQuestion& question, ExplainedText& text);
  ~WhatIf();
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  /// The changes as texts, such as "no head 1.2".
  const std::vector<std::string>& descriptions() const { return descriptions_; }

 private:
  void remove_head(const std::string& layer_and_head);
  void swap_token(const std::string& token_and_new);

  ExplainedText& text_;
  std::vector<std::string> descriptions_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> weights_;  // changed, and as it was
};

/// Returns true if the question has changes.
bool has_changes(const RunQuestion& question);

}  // namespace attend::app
