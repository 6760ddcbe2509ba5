// Fuzz target: tokenizer.json, and a text that the tokenizer encodes and decodes.
#include "attend/tokenizers/text_tokenizer.h"
#include "fuzz/fuzz.h"

#include <algorithm>

namespace {

void use(const attend::TextTokenizer& tokenizer) {
  static const std::string text = "ab <X> abc  a\xC3\xA9 <Y>e\u0301 \xE2\x82 １２３ don't. AB " +
                                  std::string(2000, 'a') + std::string(500, ' ') + "c";
  auto ids = tokenizer.encode(text).ids;
  const auto pair = tokenizer.encode_pair("a b", "ab c", {.add_special_tokens = false}).ids;
  ids.insert(ids.end(), pair.begin(), pair.end());
  tokenizer.decode(ids);
  ids.resize(std::min<std::size_t>(ids.size(), 50));
  attend::StreamingDecoder decoder(tokenizer);
  for (const auto id : ids) decoder.step(id);
  decoder.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(
      data, size, [](auto json) { use(attend::TextTokenizer::parse(std::string(json))); });
}
