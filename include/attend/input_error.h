#pragma once

#include "attend/api.h"

#include <stdexcept>
#include <string>

namespace attend {

/// Thrown for an invalid file, training recipe or value given by the user. The message names the
/// value found and the value expected. The command-line program `attend` exits with status 2 on
/// this error.
class ATTEND_API InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns `function()`. If `function` throws an InputError, puts `source`, e.g. a file name, in
/// front of the error message.
///
///     with_source("model.safetensors", [&] { return parse_safetensors_header(bytes); });
template <typename Function>
auto with_source(const std::string& source, const Function& function) {
  try {
    return function();
  } catch (const InputError& error) {
    throw InputError(source + ": " + error.what());
  }
}

}  // namespace attend
