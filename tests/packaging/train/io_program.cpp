// Uses only attend::io.
#include <attend/io/safetensors.h>
#include <attend/io/tokenizers.h>

int main() {
  attend::load_tokenizer("run");
  return static_cast<int>(attend::load_safetensors("model.safetensors").tensors.size());
}
