// Mutates a JSON document in half of the cases by its values, which mutations of its bytes rarely
// leave valid.
#include "attend/input_error.h"
#include "io/parse_json.h"
#include "mutated_files/mutations.h"

#include <algorithm>
#include <string_view>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  attend::Random random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  try {
    // Limits the nesting, unlike the parser of nlohmann::json.
    const auto json = attend::parse_json({reinterpret_cast<const char*>(data), size});
    const auto text = attend::mutated_json(json, random).dump();
    if (text.size() <= max_size) {
      std::copy(text.begin(), text.end(), data);
      return text.size();
    }
  } catch (const attend::InputError&) {  // not JSON: mutate the bytes
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
