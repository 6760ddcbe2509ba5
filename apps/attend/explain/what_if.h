#pragma once

#include "explain/explain_run.h"
#include "explain/explained_text.h"

#include <string>
#include <vector>

namespace attend::app {

/// Returns the text with the changes of a question (`masks`, `no_heads`, `swaps`). Throws
/// InputError for a token, layer or head that does not exist, and for a new token that is not
/// exactly one token.
ExplainedText with_changes(ExplainedText text, const RunQuestion& question);

/// Returns the changes of a question as texts, such as "no head 1.2".
std::vector<std::string> changes_of(const RunQuestion& question);

}  // namespace attend::app
