// Fuzz target: adapter_config.json of an adapter of PEFT, and the modules that it selects.
#include "pretrained/adapter_config.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(data, size, [](auto text) {
    const auto json = attend::parse_json(text);
    attend::JsonFields fields(json, "");
    const auto config = attend::read_adapter_config(fields);
    attend::write_adapter_config(config);
    const attend::AdapterTargets targets(config);
    for (const char* module : {"model.layers.0.self_attn.q_proj", "lm_head"}) {
      targets.contains(module, /*is_head=*/false);
      targets.rank_of(module);
      targets.alpha_of(module);
      targets.saves(module);
    }
  });
}
