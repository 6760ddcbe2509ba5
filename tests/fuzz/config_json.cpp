// Fuzz target: config.json of a published model.
#include "fuzz/fuzz.h"
#include "pretrained/published_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(data, size, [](auto text) {
    const auto json = attend::parse_json(text);
    attend::JsonFields fields(json, "");
    const auto config = attend::read_config(fields);
    attend::write_config(config);
  });
}
