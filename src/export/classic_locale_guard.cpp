#include "export/classic_locale_guard.h"

#include <clocale>
#include <string_view>

namespace attend {

ClassicLocaleGuard::ClassicLocaleGuard()
    : c_(std::setlocale(LC_ALL, nullptr)),
      is_needed_(cpp_ != std::locale::classic() ||
                 std::setlocale(LC_NUMERIC, nullptr) != std::string_view("C")) {
  if (!is_needed_) return;
  std::locale::global(std::locale::classic());  // also sets the locale of C
}

ClassicLocaleGuard::~ClassicLocaleGuard() {
  if (!is_needed_) return;
  std::locale::global(cpp_);
  std::setlocale(LC_ALL, c_.c_str());
}

}  // namespace attend
