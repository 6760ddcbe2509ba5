#include "io/load_sentencepiece.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace attend {
namespace {

/// File name of the shared library that wraps SentencePiece. The name contains no folder, so that
/// dlopen looks for the file in the library search path.
constexpr const char* kFile = "libattend_sentencepiece.so";

[[noreturn]] void throw_unavailable(const char* reason) {
  throw std::runtime_error(
      fmt::format("subword tokenizers need SentencePiece (package libsentencepiece0 on Debian and "
                  "Ubuntu): {}",
                  reason));
}

const SentencePieceModule* open_module() {
#ifdef __SANITIZE_ADDRESS__
  throw_unavailable("not supported in programs built with AddressSanitizer");
#endif
  // With RTLD_DEEPBIND, the module and its libraries use their own FLAGS_minloglevel, not that of
  // LibTorch; see sentencepiece_module.h.
  auto* module = dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (module == nullptr) throw_unavailable(dlerror());
  auto* function = dlsym(module, kSentencePieceFunction);
  if (function == nullptr) throw_unavailable(dlerror());
  return reinterpret_cast<SentencePieceFunction>(function)();
}

}  // namespace

const SentencePieceModule& load_sentencepiece() {
  static const SentencePieceModule* const module = open_module();
  return *module;
}

}  // namespace attend
