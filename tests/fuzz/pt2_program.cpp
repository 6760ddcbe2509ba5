// Fuzz target: the JSON files of a .pt2 archive, which contain the program and the list of weights.
#include "fuzz/fuzz.h"
#include "pt2/parse_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attend::fuzz::check(data, size, [](auto text) { attend::pt2::parse_program(std::string(text)); });
  return attend::fuzz::check(data, size,
                             [](auto text) { attend::pt2::parse_weights(std::string(text)); });
}
