#pragma once

#include "attend/input_error.h"

#include <fmt/format.h>

#include <string>

namespace attend::app {

/// Throws InputError for an option without effect. `where` completes the sentence "--out has no
/// effect ...", for example "beside --print-config". `alternative` is what the user can do instead
/// of removing the option, if anything.
[[noreturn]] inline void refuse_without_effect(const std::string& option, const std::string& where,
                                               const std::string& alternative = "") {
  throw InputError(fmt::format("{0} has no effect {1}: remove {0} from the command{2}", option,
                               where, alternative.empty() ? "" : ", or " + alternative));
}

}  // namespace attend::app
