#pragma once

#include <stdexcept>

namespace attend {

/// A file, a recipe or a value that somebody gave is wrong. The message names the value found and
/// what was expected; nothing has been written. The command line turns it into exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace attend
