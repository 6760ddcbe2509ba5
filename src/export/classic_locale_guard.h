#pragma once

#include "attend/api.h"

#include <locale>
#include <string>

namespace attend {

/// RAII guard: until the end of the scope, the global locale of C++ and the locale of C are the
/// classic ones. LibTorch writes and parses the numbers of TorchScript code with streams of the
/// global locale, in which a decimal point may be a comma. Both locales belong to the process. The
/// guard does nothing if both are classic already.
class ATTEND_API ClassicLocaleGuard {
 public:
  ClassicLocaleGuard();
  ~ClassicLocaleGuard();
  ClassicLocaleGuard(const ClassicLocaleGuard&) = delete;
  ClassicLocaleGuard& operator=(const ClassicLocaleGuard&) = delete;

 private:
  std::locale cpp_;  // the global locale
  std::string c_;
  bool is_needed_;
};

}  // namespace attend
