// Checks that modules, casts and exceptions work across shared libraries.
#include <attend/export/pt2.h>
#include <attend/input_error.h>
#include <attend/io/safetensors.h>
#include <attend/io/tokenizers.h>
#include <attend/nn/transformer_block.h>
#include <attend/pt2/pt2_program.h>

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>

#include <iostream>

template <typename Error, typename Function>
bool throws(const Function& function) {
  try {
    function();
  } catch (const Error&) {
    return true;
  }
  return false;
}

int main() {
  attend::TransformerBlock block(attend::TransformerBlockOptions(16, 2));
  block->eval();
  const std::shared_ptr<torch::nn::Module> module = block.ptr();
  const auto* cast = module->as<attend::TransformerBlock>();
  const auto x = at::randn({2, 5, 16});
  attend::export_pt2(block, x, "block.pt2", {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
  const auto loaded = attend::load_pt2("block.pt2").forward({x}).at(0);

  attend::TransformerBlock copy(attend::TransformerBlockOptions(16, 2));
  attend::save_safetensors("block.safetensors", {.tensors = attend::state_dict(*block)});
  attend::load_state_dict(*copy, attend::load_safetensors("block.safetensors").tensors);
  copy->eval();

  const auto tokenizer = attend::make_tokenizer(attend::TokenizerKind::subword, "a b a b", 260);
  const bool input_error =
      throws<attend::InputError>([] { attend::load_safetensors("no such file"); }) &&
      throws<attend::InputError>([] { attend::load_pt2("no such file"); });
  const bool value_error = throws<c10::ValueError>(
      [] { attend::TransformerBlock(attend::TransformerBlockOptions(10, 3)); });
  const auto y = block(x);
  const bool agree = at::allclose(loaded, y) && at::allclose(copy(x), y);
  std::cout << "cast " << (cast != nullptr) << ", agree " << agree << ", InputError " << input_error
            << ", ValueError " << value_error << "\n";
  return cast != nullptr && agree && input_error && value_error &&
                 tokenizer->decode(tokenizer->encode("b a")) == "b a"
             ? 0
             : 1;
}
