// Several threads call the same module in eval mode. The CMake preset tsan also runs these tests.
#include "attend/nn.h"
#include "support/close.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace attend {
namespace {

using Run = std::function<torch::Tensor()>;

/// `make` creates a module in eval mode and returns a function that calls it.
struct SharedModule {
  std::string name;
  std::function<Run()> make;

  friend std::ostream& operator<<(std::ostream& stream, const SharedModule& self) {
    return stream << self.name;
  }
};

/// An encoder of two blocks of width 16; `change` sets their options.
SharedModule encoder_with(const char* name,
                          const std::function<void(TransformerBlockOptions&)>& change) {
  return {name, [change]() -> Run {
            TransformerBlockOptions block(16, 4);
            block.attention().num_kv_heads(2).dropout(0.1);
            block.residual().dropout(0.1);
            change(block);
            TransformerEncoder encoder(TransformerEncoderOptions(block, 2));
            encoder->eval();
            const auto x = torch::randn({2, 5, 16});
            return [=]() mutable { return encoder->forward(x, {.causal = true}); };
          }};
}

void add_hooks(TransformerBlockOptions& block) {
  block.attention()
      .add(qk_norm())
      .add(rotary())
      .add(value_residual())
      .add(smeared_keys())
      .add(alibi())
      .add(relative_bias())
      .add(sliding_window(3))
      .add(soft_cap(5.0))
      .add(attention_sinks())
      .add(output_gate());
}

std::vector<SharedModule> shared_modules() {
  return {
      encoder_with("Plain", [](auto&) {}),
      encoder_with("Experts", [](auto& block) { block.experts(ExpertsOptions(4)); }),
      encoder_with("Hooks", add_hooks),
      encoder_with("Sandwich",
                   [](auto& block) {
                     block.residual()
                         .norm(rms_norm())
                         .norm_order(NormOrder::sandwich)
                         .branch_scale(layer_scale())
                         .stochastic_depth(0.2);
                     block.feed_forward().activation(Activation::swiglu).dropout(0.1);
                   }),
      {"Decoder",
       []() -> Run {
         EncoderDecoder model(
             EncoderDecoderOptions(TransformerEncoderOptions(TransformerBlockOptions(16, 4), 1),
                                   TransformerDecoderOptions(DecoderBlockOptions(16, 4), 2)));
         model->eval();
         const auto source = torch::randn({2, 7, 16});
         const auto target = torch::randn({2, 5, 16});
         return [=]() mutable { return model->forward(source, target, {}, {.causal = true}); };
       }},
      {"Cache",
       []() -> Run {
         TransformerBlockOptions block(16, 4);
         block.attention().add(rotary()).add(sliding_window(3));
         TransformerEncoder encoder(TransformerEncoderOptions(block, 2));
         encoder->eval();
         freeze(*encoder);
         const auto x = torch::randn({2, 5, 16});
         return [=]() mutable {
           KvCache cache(
               KvCacheOptions().num_layers(2).batch_size(2).num_kv_heads(4).head_dim(4).max_seq_len(
                   8));
           cache.extend(5);
           return encoder->forward(x, {.causal = true}, {.cache = &cache});
         };
       }},
      {"MixtureOfExperts",
       []() -> Run {
         MixtureOfExperts mixture(
             MixtureOfExpertsOptions(2, ExpertsOptions(1).num_experts_per_tok(1)));
         mixture->eval();
         const auto x = torch::randn({1, 1, 2});
         return [=]() mutable { return mixture->forward(x); };
       }},
      {"Embedding",
       []() -> Run {
         TokenEmbedding embedding(
             TokenEmbeddingOptions(11, 16, 8).positions(PositionEmbedding::sinusoidal));
         embedding->eval();
         const auto tokens = torch::randint(11, {2, 5});
         return [=]() mutable { return embedding->forward(tokens); };
       }},
      {"SelfAttention",
       []() -> Run {
         SelfAttention attention(SelfAttentionOptions(16));
         attention->eval();
         const auto x = torch::randn({2, 5, 16});
         return [=]() mutable { return attention->forward(x, {.causal = true}).output; };
       }},
  };
}

struct ModuleConcurrency : FixedSeed, testing::TestWithParam<SharedModule> {};

TEST_P(ModuleConcurrency, SeveralThreadsGetTheResultsOfASingleThread) {
  const auto run = GetParam().make();
  for (const bool with_gradients : {false, true}) {
    const auto call = [&run, with_gradients] {
      const torch::AutoGradMode grad_mode(with_gradients);
      AttentionRecorder recorder;
      FlopCounter counter;
      return run();
    };
    const auto expected = call();
    std::vector<int> equal(4, 0);
    std::vector<std::thread> threads;
    for (auto& count : equal) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) count += torch::equal(call(), expected) ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(equal, testing::Each(100));
  }
}

INSTANTIATE_TEST_SUITE_P(, ModuleConcurrency, testing::ValuesIn(shared_modules()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace attend
