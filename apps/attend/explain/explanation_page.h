#pragma once

#include "explain/explain_run.h"
#include "explain/explanation.h"

#include <string>

namespace attend::app {

/// Returns a page for a browser with an explanation. Readers without JavaScript see its tables. All
/// pages have at most 10 MB, and say what they leave out.
std::string explanation_page(const Explanation& explanation);

/// Returns a page with the explanations of all layers and heads of a run, and the title `title`:
/// the layer and head of the question first, then the other heads of the layer, then the other
/// layers. Throws InputError as `RunExplainer` does.
std::string explanation_page(ExplainedText text, const RunQuestion& question,
                             const std::string& title);

}  // namespace attend::app
