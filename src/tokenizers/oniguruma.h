#pragma once

#include <oniguruma.h>

namespace attend::tokenizers {

/// The functions of Oniguruma that are used here. The library is loaded with dlopen: it also
/// defines `regcomp` and the other functions of POSIX, with other flags. If a program linked it,
/// these would replace those of libc in the whole program.
struct Oniguruma {
  decltype(::onig_error_code_to_str)* onig_error_code_to_str;
  decltype(::onig_free)* onig_free;
  decltype(::onig_free_match_param)* onig_free_match_param;
  decltype(::onig_initialize)* onig_initialize;
  decltype(::onig_initialize_match_param)* onig_initialize_match_param;
  decltype(::onig_new)* onig_new;
  decltype(::onig_new_match_param)* onig_new_match_param;
  decltype(::onig_region_free)* onig_region_free;
  decltype(::onig_region_new)* onig_region_new;
  decltype(::onig_search_with_param)* onig_search_with_param;
  decltype(::onig_set_match_stack_limit_size_of_match_param)*
      onig_set_match_stack_limit_size_of_match_param;
  decltype(::onig_set_retry_limit_in_match_of_match_param)*
      onig_set_retry_limit_in_match_of_match_param;
  decltype(::onig_set_retry_limit_in_search_of_match_param)*
      onig_set_retry_limit_in_search_of_match_param;
  OnigEncodingType* utf8;
  OnigSyntaxType** default_syntax;
};

/// Returns the functions of the library, which is initialized for UTF-8. Throws std::runtime_error
/// if it cannot be loaded.
const Oniguruma& oniguruma();

}  // namespace attend::tokenizers
