#include "attend/nn/alibi.h"
#include "attend/nn/attention_sinks.h"
#include "attend/nn/branch_scale.h"
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/patch_embedding.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/rotary.h"
#include "attend/nn/self_attention.h"
#include "attend/nn/sinusoidal_positions.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/soft_cap.h"
#include "attend/nn/stochastic_depth.h"
#include "attend/nn/token_embedding.h"
#include "export/export_case.h"

namespace attend {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kHeads = 4;

const auto kCausal = [](auto& module, const Tensors& in) {
  return Outputs(module.forward(in.at(0), {.causal = true}));
};

CaseInput rows(int64_t width = kWidth) {
  return reals("x", {kBatch, kLength, width});
}
CaseInput memory(int64_t width = kWidth) {
  return reals("memory", {kBatch, kMemoryLength, width});
}

/// Returns cases of calls that both SelfAttention and MultiheadAttention support.
template <typename Holder, typename Options>
std::vector<ExportCase> calls_of(const char* name, const Options& options) {
  const auto attention = [&] { return Holder(options); };
  const auto call = [](auto make_args) {
    return [make_args](auto& module, const Tensors& in) {
      return module.forward(in.at(0), make_args(in)).output;
    };
  };
  using Args = AttentionArgs;
  const std::vector<int64_t> square{kLength, kLength};
  return {
      make_case(name, "plain", attention(), {rows()}, call([](auto&) { return Args{}; })),
      make_case(name, "unbatched", attention(), {reals("x", {kLength, kWidth})},
                call([](auto&) { return Args{}; })),
      make_case(name, "causal", attention(), {rows()},
                call([](auto&) { return Args{.causal = true}; })),
      make_case(name, "sliding_window_args", attention(), {rows()},
                call([](auto&) { return Args{.causal = true, .sliding_window = 3}; })),
      make_case(name, "padded", attention(), {rows(), bools("key_mask")},
                call([](auto& in) { return Args{.key_mask = in.at(1)}; })),
      make_case(name, "packed", attention(), {rows(), non_decreasing("documents")},
                call([](auto& in) { return Args{.segments = in.at(1), .causal = true}; })),
      make_case(name, "positions", attention(), {rows(), non_decreasing("positions")},
                call([](auto& in) { return Args{.positions = in.at(1), .causal = true}; })),
      make_case(name, "bool_mask", attention(), {rows(), bools("mask", square)},
                call([](auto& in) { return Args{.mask = in.at(1)}; })),
      make_case(name, "float_mask", attention(), {rows(), reals("mask", square)},
                call([](auto& in) { return Args{.mask = in.at(1), .causal = true}; })),
      make_case(name, "weights", attention(), {rows(), bools("key_mask")},
                [](auto& module, const Tensors& in) {
                  const auto [output, weights] =
                      module.forward(in.at(0), {.key_mask = in.at(1), .need_weights = true});
                  return Tensors{output, weights};
                }),
  };
}

std::vector<ExportCase> self_attention_cases() {
  constexpr auto* kName = "SelfAttention";
  const auto forward = [](auto& module, const Tensors& in) { return module.forward(in[0]).output; };
  const auto with = [&](const char* option, const SelfAttentionOptions& options) {
    return make_case(kName, option, SelfAttention(options), {rows()}, forward);
  };
  using Options = SelfAttentionOptions;
  auto cases = calls_of<SelfAttention>(kName, Options(kWidth));
  cases.push_back(with("qk_dim_and_v_dim", Options(kWidth).qk_dim(8).v_dim(4)));
  cases.push_back(with("no_bias", Options(kWidth).bias(false)));
  cases.push_back(with("unscaled", Options(kWidth).scale(kUnscaled)));
  cases.push_back(with("scale", Options(kWidth).qk_dim(8).scale(0.3)));
  return cases;
}

std::vector<ExportCase> multihead_attention_cases() {
  constexpr auto* kName = "MultiheadAttention";
  using Options = MultiheadAttentionOptions;
  const Options options(kWidth, kHeads);
  auto cases = calls_of<MultiheadAttention>(kName, options);
  const auto with = [&](const char* option, const Options& any) {
    cases.push_back(
        make_case(kName, option, MultiheadAttention(any), {rows(), bools("key_mask")},
                  [](auto& module, const Tensors& in) {
                    return module.forward(in.at(0), {.key_mask = in.at(1), .causal = true}).output;
                  }));
  };
  const auto with_hook = [&](const char* option, const AttentionHookFactory& hook) {
    with(option, Options(options).add(hook));
  };
  with("grouped_query", Options(options).num_kv_heads(2));
  with("multi_query", Options(options).num_kv_heads(1));
  with("wide_heads", Options(options).head_dim(kWidth));
  with("no_bias", Options(options).bias(false));
  with("scale", Options(options).scale(0.3));
  with("qkv_bias", Options(options).bias(false).qkv_bias(true));
  with_hook("rotary", rotary());
  with_hook("rotary_partial_interleaved", rotary({.rotary_dim = 2, .interleaved = true}));
  with_hook("alibi", alibi());
  with_hook("relative_bias", relative_bias());
  with_hook("relative_bias_unidirectional",
            relative_bias({.num_buckets = 8, .bidirectional = false}));
  with_hook("sliding_window", sliding_window(3));
  with_hook("soft_cap", soft_cap(2.0));
  with_hook("qk_norm_rms", qk_norm());
  with_hook("qk_norm_layer", qk_norm(layer_norm()));
  with_hook("qk_norm_l2", qk_norm(l2_norm()));
  with_hook("output_gate", output_gate());
  with_hook("output_gate_elementwise", output_gate(GateWidth::element));
  with_hook("attention_sinks", attention_sinks());
  with_hook("smeared_keys", smeared_keys());
  cases.push_back(make_case(kName, "average_attn_weights", MultiheadAttention(options), {rows()},
                            [](auto& module, const Tensors& in) {
                              const auto [output, weights] = module.forward(
                                  in.at(0), {.need_weights = true, .average_attn_weights = true});
                              return Tensors{output, weights};
                            }));
  const auto cross = [](auto& module, const Tensors& in) {
    return module.cross(in.at(0), in.at(1), in.at(1)).output;
  };
  cases.push_back(
      make_case(kName, "cross", MultiheadAttention(options), {rows(), memory()}, cross));
  cases.push_back(make_case(kName, "cross_kdim_vdim",
                            MultiheadAttention(Options(options).kdim(6).vdim(6)),
                            {rows(), memory(6)}, cross));
  cases.push_back(
      make_case(kName, "cross_padded", MultiheadAttention(options),
                {rows(), memory(), bools("memory_key_mask", {kBatch, kMemoryLength})},
                [](auto& module, const Tensors& in) {
                  return module.cross(in.at(0), in.at(1), in.at(1), {.key_mask = in.at(2)}).output;
                }));
  return cases;
}

std::vector<ExportCase> block_cases() {
  constexpr auto* kName = "TransformerBlock";
  const auto with = [&](const std::string& option, const auto& change) {
    TransformerBlockOptions options(kWidth, kHeads);
    options.residual().dropout(0.5).stochastic_depth(0.5);
    change(options);
    return make_case(kName, option, TransformerBlock(options), {rows()}, kCausal);
  };
  const auto with_scale = [&](const char* option, const ModuleFactory& scale) {
    return with(option, [&](auto& options) { options.residual().branch_scale(scale); });
  };
  std::vector<ExportCase> cases{
      with("rms_norm", [](auto& options) { options.residual().norm(rms_norm()); }),
      with("no_norm_bias",
           [](auto& options) { options.residual().norm(layer_norm(1e-5, /*bias=*/false)); }),
      with("experts", [](auto& options) { options.experts(ExpertsOptions(4)); }),
      with_scale("layer_scale", layer_scale()),
      with_scale("rezero", rezero()),
      with_scale("constant_scale", constant_scale(0.5)),
      make_case(kName, "padded", TransformerBlock(kWidth, kHeads), {rows(), bools("key_mask")},
                kPadded),
  };
  for (const auto order : {NormOrder::pre, NormOrder::post, NormOrder::sandwich,
                           NormOrder::parallel, NormOrder::parallel_separate_norms}) {
    cases.push_back(with(std::string(to_string(order)),
                         [&](auto& options) { options.residual().norm_order(order); }));
  }
  return cases;
}

std::vector<ExportCase> stack_cases() {
  const TransformerEncoderOptions encoder({kWidth, kHeads}, 2);
  const TransformerDecoderOptions decoder({kWidth, kHeads}, 2);
  const auto memory_key_mask = bools("memory_key_mask", {kBatch, kMemoryLength});
  const auto forward = [](auto& module, const Tensors& in) {
    return module.forward(in.at(0), in.at(1), {.causal = true}, {.key_mask = in.at(2)});
  };
  DecoderBlockOptions other_width(kWidth, kHeads);
  other_width.cross_attention().kdim(6).vdim(6);
  DecoderBlockOptions parallel(kWidth, kHeads);
  parallel.residual().norm_order(NormOrder::parallel);
  DecoderBlockOptions parallel_experts(kWidth, kHeads);
  parallel_experts.experts(ExpertsOptions(3))
      .residual()
      .norm_order(NormOrder::parallel_separate_norms);
  TransformerEncoderOptions per_layer(encoder);
  per_layer.per_layer([](int64_t layer, TransformerBlockOptions& block) {
    block.attention().add(layer == 0 ? relative_bias() : shared_relative_bias());
    if (layer == 1) block.attention().add(sliding_window(2));
  });
  return {
      make_case("TransformerEncoder", "plain", TransformerEncoder(encoder), {rows()}),
      make_case("TransformerEncoder", "causal", TransformerEncoder(encoder), {rows()}, kCausal),
      make_case("TransformerEncoder", "padded", TransformerEncoder(encoder),
                {rows(), bools("key_mask")}, kPadded),
      make_case("TransformerEncoder", "no_final_norm",
                TransformerEncoder(TransformerEncoderOptions(encoder).final_norm(false)), {rows()}),
      make_case("DecoderBlock", "plain", DecoderBlock(kWidth, kHeads),
                {rows(), memory(), memory_key_mask}, forward),
      make_case("DecoderBlock", "cross_kdim_vdim", DecoderBlock(other_width),
                {rows(), memory(6), memory_key_mask}, forward),
      make_case("DecoderBlock", "parallel", DecoderBlock(parallel),
                {rows(), memory(), memory_key_mask}, forward),
      make_case("DecoderBlock", "parallel_experts", DecoderBlock(parallel_experts),
                {rows(), memory(), memory_key_mask}, forward),
      make_case("TransformerEncoder", "per_layer", TransformerEncoder(per_layer), {rows()}),
      make_case("TransformerDecoder", "plain", TransformerDecoder(decoder),
                {rows(), memory(), memory_key_mask}, forward),
      make_case("EncoderDecoder", "plain", EncoderDecoder(EncoderDecoderOptions(encoder, decoder)),
                {memory(), rows(), memory_key_mask},
                [](auto& module, const Tensors& in) {
                  return module.forward(in.at(0), in.at(1), {.key_mask = in.at(2)},
                                        {.causal = true});
                }),
  };
}

std::vector<ExportCase> position_wise_cases() {
  const auto experts = [](const char* option, const ExpertsOptions& options) {
    return make_case("MixtureOfExperts", option,
                     MixtureOfExperts(MixtureOfExpertsOptions(
                         FeedForwardOptions(kWidth).dim_feedforward(8).dropout(0.5), options)),
                     {rows()});
  };
  using PatchOptions = PatchEmbeddingOptions;
  const auto patches = [](const char* option, const PatchOptions& options) {
    return make_case("PatchEmbedding", option, PatchEmbedding(options),
                     {reals("images", {kBatch, 3, 8, 12})});
  };
  std::vector<ExportCase> cases{
      make_case("LayerNorm", "plain", LayerNorm(kWidth), {rows()}),
      make_case("LayerNorm", "no_bias", LayerNorm(LayerNormOptions(kWidth).bias(false)), {rows()}),
      make_case("RMSNorm", "plain", RMSNorm(kWidth), {rows()}),
      make_case("RMSNorm", "eps", RMSNorm(RMSNormOptions(kWidth).eps(0.1)), {rows()}),
      make_case("L2Norm", "plain", L2Norm(kWidth), {rows()}),
      make_case("LayerScale", "plain", LayerScale(kWidth), {rows()}),
      make_case("ReZero", "plain", ReZero(), {rows()}),
      make_case("ConstantScale", "plain", ConstantScale(0.5), {rows()}),
      make_case("StochasticDepth", "plain", StochasticDepth(0.5), {rows()}),
      patches("plain", PatchOptions({8, 12}, {4, 6}, 3, kWidth)),
      patches("class_token", PatchOptions({8, 12}, {4, 6}, 3, kWidth).class_token(true)),
      patches("no_bias", PatchOptions({8, 12}, {4, 6}, 3, kWidth).bias(false).dropout(0.5)),
      make_case("SinusoidalPositions", "plain", SinusoidalPositions(kWidth),
                {non_decreasing("positions")}),
      experts("plain", ExpertsOptions(4)),
      experts("top_1", ExpertsOptions(4).num_experts_per_tok(1)),
      experts("top_3_not_normalized",
              ExpertsOptions(4).num_experts_per_tok(3).norm_topk_prob(false)),
      make_case("FeedForward", "no_bias",
                FeedForward(FeedForwardOptions(kWidth).bias(false).dropout(0.5)), {rows()}),
      make_case("FeedForward", "function",
                FeedForward(FeedForwardOptions(kWidth).activation(
                    [](const torch::Tensor& x) { return torch::sin(x) + x; })),
                {rows()}),
      cast(make_case("FeedForward", "float64", FeedForward(FeedForwardOptions(kWidth)), {rows()}),
           torch::kDouble),
      cast(make_case("FeedForward", "bfloat16", FeedForward(FeedForwardOptions(kWidth)), {rows()}),
           torch::kBFloat16),
  };
  for (const auto name : EnumNames<Activation>::names) {
    const auto options = FeedForwardOptions(kWidth).activation(*from_string<Activation>(name));
    cases.push_back(make_case("FeedForward", std::string(name), FeedForward(options), {rows()}));
  }
  for (const auto name : EnumNames<PositionEmbedding>::names) {
    const auto options = TokenEmbeddingOptions(11, kWidth, 16)
                             .positions(*from_string<PositionEmbedding>(name))
                             .dropout(0.5);
    cases.push_back(make_case("TokenEmbedding", std::string(name), TokenEmbedding(options),
                              {tokens("tokens", 11)}));
    if (name == "none") continue;
    cases.push_back(make_case(
        "TokenEmbedding", std::string(name) + "_types_scale_and_norm",
        TokenEmbedding(
            TokenEmbeddingOptions(options).type_vocab_size(3).embedding_scale(4).embedding_norm(
                layer_norm())),
        {tokens("tokens", 11), tokens("token_types", 3)},
        [](auto& module, const Tensors& in) { return module.forward(in.at(0), {}, in.at(1)); }));
    cases.push_back(make_case(
        "TokenEmbedding", std::string(name) + "_with_positions", TokenEmbedding(options),
        {tokens("tokens", 11), non_decreasing("positions")},
        [](auto& module, const Tensors& in) { return module.forward(in.at(0), in.at(1)); }));
  }
  return cases;
}

}  // namespace

std::vector<ExportCase> module_cases() {
  std::vector<ExportCase> all;
  for (auto& cases : {self_attention_cases(), multihead_attention_cases(), position_wise_cases(),
                      block_cases(), stack_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace attend
