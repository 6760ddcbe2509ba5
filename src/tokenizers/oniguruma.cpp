#include "tokenizers/oniguruma.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace attend::tokenizers {
namespace {

/// Sets `target` to the address of the symbol `name`.
template <typename Symbol>
void load(void* library, const char* name, Symbol*& target) {
  target = reinterpret_cast<Symbol*>(::dlsym(library, name));
  if (target == nullptr)
    throw std::runtime_error(fmt::format("cannot use Oniguruma: {}", ::dlerror()));
}

Oniguruma load_library() {
  // The library is never unloaded. Its symbols are not visible to other libraries (RTLD_LOCAL).
  void* library = ::dlopen("libonig.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(
        fmt::format("cannot load Oniguruma: {}; install the package libonig5", ::dlerror()));
  }
  Oniguruma onig{};
  load(library, "onig_error_code_to_str", onig.onig_error_code_to_str);
  load(library, "onig_free", onig.onig_free);
  load(library, "onig_free_match_param", onig.onig_free_match_param);
  load(library, "onig_initialize", onig.onig_initialize);
  load(library, "onig_initialize_match_param", onig.onig_initialize_match_param);
  load(library, "onig_new", onig.onig_new);
  load(library, "onig_new_match_param", onig.onig_new_match_param);
  load(library, "onig_region_free", onig.onig_region_free);
  load(library, "onig_region_new", onig.onig_region_new);
  load(library, "onig_search_with_param", onig.onig_search_with_param);
  load(library, "onig_set_match_stack_limit_size_of_match_param",
       onig.onig_set_match_stack_limit_size_of_match_param);
  load(library, "onig_set_retry_limit_in_match_of_match_param",
       onig.onig_set_retry_limit_in_match_of_match_param);
  load(library, "onig_set_retry_limit_in_search_of_match_param",
       onig.onig_set_retry_limit_in_search_of_match_param);
  load(library, "OnigEncodingUTF8", onig.utf8);
  load(library, "OnigDefaultSyntax", onig.default_syntax);
  OnigEncoding encoding = onig.utf8;
  onig.onig_initialize(&encoding, 1);
  return onig;
}

}  // namespace

const Oniguruma& oniguruma() {
  static const auto functions = load_library();
  return functions;
}

}  // namespace attend::tokenizers
