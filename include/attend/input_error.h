#pragma once

#include <stdexcept>
#include <string>

namespace attend {

/// A file, a recipe or a value that somebody gave is wrong. The message names the value found and
/// what was expected; nothing has been written. The command line turns it into exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What `function` returns. The message of an InputError that it throws gets in front where the
/// input comes from: a file, or what was typed.
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
