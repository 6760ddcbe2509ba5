// Fuzz target: data.pkl of a TorchScript archive.
#include "export/pickle.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(data, size, [](auto bytes) {
    const attend::Pickle pickle(bytes);
    for (const auto item : pickle.root().items) static_cast<void>(pickle[item].kind);
  });
}
