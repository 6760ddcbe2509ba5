// Fuzz target: a chat template, and a conversation that it renders.
#include "attend/tokenizers/chat_template.h"

#include "attend/io/utf8.h"
#include "fuzz/fuzz.h"

namespace {

constexpr const char* kMessages = R"([
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": "Hello 😀\n"},
  {"role": "assistant", "content": "Hi", "tool_calls": [
    {"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]},
  {"role": "user", "content": [{"type": "text", "text": "x"}]}
])";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return attend::fuzz::check(data, size, [](auto text) {
    const auto chat = attend::ChatTemplate::parse(std::string(text),
                                                  {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    attend::check_utf8(chat.render_json(kMessages, {.add_generation_prompt = true}).text);
  });
}
