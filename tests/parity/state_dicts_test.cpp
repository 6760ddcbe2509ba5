// Compares modules whose weights are read by load_weights with the modules of PyTorch and nanoGPT
// that saved them. state_dicts_test.py writes the cases and runs this test.
#include "attend/io/load_weights.h"
#include "attend/models/language_model.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"
#include "support/rounding.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>

namespace attend {
namespace {

/// A folder that state_dicts_test.py has written.
struct StateDictCase {
  std::filesystem::path folder;
  Safetensors expected = load_safetensors(folder / "expected.safetensors");
  nlohmann::json options = nlohmann::json::parse(expected.metadata.at("options"));

  bool is(const char* name) const { return options.at(name).get<bool>(); }
  int64_t size(const char* name) const { return options.at(name).get<int64_t>(); }

  /// Returns options of the layers of nn.TransformerEncoder and nn.TransformerDecoder.
  template <typename BlockOptions>
  BlockOptions block_options() const {
    const auto activation = options.at("activation").get<std::string>();
    BlockOptions block(size("width"), size("heads"));
    block.attention().bias(is("bias"));
    block.feed_forward()
        .dim_feedforward(size("hidden"))
        .activation(from_string<Activation>(activation).value())
        .bias(is("bias"));
    block.residual()
        .norm(layer_norm(1e-5, is("bias")))
        .norm_order(is("norm_first") ? NormOrder::pre : NormOrder::post);
    return block;
  }

  /// Loads the weights and compares the outputs. `forward` is called with the inputs x and memory.
  template <typename Rename, typename Forward>
  void expect_equal(torch::nn::Module& module, const Rename& rename, const Forward& forward) const {
    load_weights(module, folder, {.rename = rename});
    const torch::NoGradGuard no_grad;
    const auto inputs = [&](torch::Dtype dtype) {
      Tensors tensors;
      for (const char* name : {"x", "memory"}) {
        const auto found = expected.tensors.find(name);
        if (found == expected.tensors.end()) continue;
        tensors.push_back(found->second.is_floating_point() ? found->second.to(dtype)
                                                            : found->second);
      }
      return tensors;
    };
    const auto output = forward(inputs(torch::kFloat));
    module.to(torch::kDouble);
    const auto exact = inputs(torch::kDouble);
    // Both outputs were computed in float32.
    EXPECT_TRUE(within_rounding({output, expected.tensors.at("output")}, leaves_of(module, exact),
                                [&] { return Tensors(2, forward(exact)); }))
        << options;
  }

  void run() const {
    const auto kind = options.at("kind").get<std::string>();
    if (kind == "nanogpt") {
      LanguageModel model(LanguageModelConfig{.vocab_size = size("vocab_size"),
                                              .max_seq_len = size("block_size"),
                                              .stack = {.num_layers = size("layers"),
                                                        .num_heads = size("heads"),
                                                        .embed_dim = size("width"),
                                                        .bias = is("bias")}});
      expect_equal(*model, rename_nanogpt, [&](const Tensors& in) { return model(in[0]); });
      return;
    }
    const AttentionArgs padding{.key_mask = expected.tensors.at("mask")};
    if (kind == "attention") {
      MultiheadAttention attention(
          MultiheadAttentionOptions(size("width"), size("heads")).bias(is("bias")));
      expect_equal(*attention, rename_pytorch_encoder,
                   [&](const Tensors& in) { return attention(in[0], padding).output; });
    } else if (kind == "encoder") {
      TransformerEncoder encoder(
          TransformerEncoderOptions(block_options<TransformerBlockOptions>(), size("layers"))
              .final_norm(is("final_norm")));
      expect_equal(*encoder, rename_pytorch_encoder,
                   [&](const Tensors& in) { return encoder(in[0], padding); });
    } else {
      ASSERT_EQ(kind, "decoder");
      auto block = block_options<DecoderBlockOptions>();
      block.cross_attention().bias(is("bias"));
      TransformerDecoder decoder(
          TransformerDecoderOptions(block, size("layers")).final_norm(is("final_norm")));
      expect_equal(*decoder, rename_pytorch_decoder, [&](const Tensors& in) {
        return decoder(in[0], in[1], {.causal = true}, padding);
      });
    }
  }
};

TEST(StateDicts, MatchPyTorch) {
  const char* cases = std::getenv("ATTEND_STATE_DICT_CASES");
  if (cases == nullptr) {
    GTEST_SKIP() << "ATTEND_STATE_DICT_CASES is not set; run state_dicts_test.py, which creates "
                    "the cases";
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    SCOPED_TRACE(entry.path().filename().string());
    StateDictCase{entry.path()}.run();
    ++count;
  }
  std::cout << "state dicts: compared " << count << " modules\n";
}

}  // namespace
}  // namespace attend
