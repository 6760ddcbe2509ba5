#pragma once

#include "explain/explanation.h"

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// Type name of an argument that is the directory of a run or the name of an example.
inline constexpr const char* kSubjectType = "DIR|EXAMPLE";

/// A built-in example of `attend explain`.
struct ExplainExample {
  const char* name;
  const char* summary;                               ///< one line
  Explanation (*explain)(const std::string& token);  ///< `token`: token to follow; empty = default
};

/// All examples, in the order in which `attend explain --list` lists them.
const std::vector<ExplainExample>& explain_examples();

}  // namespace attend::app
