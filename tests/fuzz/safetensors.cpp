// Fuzz target: the header of a safetensors file.
#include "attend/io/safetensors_header.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(data, size, [](auto file) { attend::parse_safetensors_header(file); });
}
