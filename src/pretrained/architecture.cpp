#include "pretrained/architecture.h"

#include <fmt/format.h>

#include <cmath>

namespace attend {

void ignore_common_keys(JsonFields& reader) {
  reader.ignore({
      // about the file
      "_commit_hash",
      "_name_or_path",
      "architectures",
      "model_type",
      "name_or_path",
      "transformers_version",
      "torch_dtype",
      "dtype",
      "auto_map",
      "task_specific_params",
      "problem_type",
      "finetuning_task",
      "id2label",
      "label2id",
      "num_labels",
      // training
      "initializer_range",
      "gradient_checkpointing",
      "use_bfloat16",
      "attention_dropout",
      "hidden_dropout",
      "classifier_dropout",
      "router_aux_loss_coef",
      "router_jitter_noise",
      "layer_norm_elementwise_affine",
      // outputs of transformers
      "output_attentions",
      "output_hidden_states",
      "output_past",
      "output_router_logits",
      "return_dict",
      "use_cache",
      "torchscript",
      "_attn_implementation_autoset",
      "attn_implementation",
      "chunk_size_feed_forward",
      "cache_implementation",
      // special tokens and generation
      "bos_token_id",
      "eos_token_id",
      "pad_token_id",
      "sep_token_id",
      "cls_token_id",
      "decoder_start_token_id",
      "prefix",
      "max_length",
      "min_length",
      "do_sample",
      "early_stopping",
      "num_beams",
      "num_beam_groups",
      "diversity_penalty",
      "temperature",
      "top_k",
      "top_p",
      "typical_p",
      "repetition_penalty",
      "length_penalty",
      "no_repeat_ngram_size",
      "encoder_no_repeat_ngram_size",
      "bad_words_ids",
      "num_return_sequences",
      "output_scores",
      "return_dict_in_generate",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "remove_invalid_values",
      "exponential_decay_length_penalty",
      "suppress_tokens",
      "begin_suppress_tokens",
  });
  reader.require("is_decoder", false);
  reader.require("add_cross_attention", false);
  reader.ignore({"cross_attention_hidden_size", "tie_encoder_decoder", "pruned_heads",
                 "tf_legacy_loss", "tokenizer_class"});
  reader.require("quantization_config", nullptr);
}

namespace {

/// Reads the keys of `rope_scaling`, or of `rope_parameters`, which also contains theta.
/// `original_max_seq_len`: value of the key in the whole file; 0 = missing.
void read_rotary_scaling(JsonFields& reader, int64_t max_seq_len, int64_t original_max_seq_len,
                         RotaryOptions& options) {
  const char* type_key = reader.has("rope_type") ? "rope_type" : "type";
  reader.ignore({"rope_type", "type"});
  options.scaling = reader.choice<RotaryScaling>(type_key, "default",
                                                 {{"default", RotaryScaling::none},
                                                  {"linear", RotaryScaling::linear},
                                                  {"yarn", RotaryScaling::yarn},
                                                  {"llama3", RotaryScaling::llama3}});
  if (options.scaling == RotaryScaling::none) return reader.ignore({"factor"});
  if (!reader.has("factor")) {
    reader.throw_unexpected(
        "factor", fmt::format("a number, because {} is {}", type_key, to_string(options.scaling)));
  }
  options.factor = reader.number("factor", 1.0);
  if (options.scaling == RotaryScaling::linear) return;
  const auto nested = reader.size("original_max_position_embeddings", max_seq_len);
  options.original_max_seq_len = original_max_seq_len == 0 ? nested : original_max_seq_len;
  if (options.scaling == RotaryScaling::llama3) {
    options.low_freq_factor = reader.number("low_freq_factor", 1.0);
    options.high_freq_factor = reader.number("high_freq_factor", 4.0);
    return;
  }
  options.beta_fast = reader.number("beta_fast", options.beta_fast);
  options.beta_slow = reader.number("beta_slow", options.beta_slow);
  options.truncate = reader.boolean("truncate", options.truncate);
  options.attention_factor = reader.number("attention_factor", 0.0);
  reader.require("mscale", nullptr);
  reader.require("mscale_all_dim", nullptr);
}

/// Returns the options of rotary positions.
RotaryOptions read_rotary(JsonFields& reader, int64_t head_dim, int64_t max_seq_len,
                          double default_theta, std::optional<double> default_part) {
  RotaryOptions options;
  const auto original = reader.size("original_max_position_embeddings", 0);
  options.theta = reader.number("rope_theta", default_theta);
  constexpr const char* kPart = "partial_rotary_factor";
  auto part = reader.number(kPart, default_part.value_or(1.0));
  if (!default_part) reader.require(kPart, 1.0);
  reader.ignore({"rope_scaling", "rope_parameters"});
  // transformers 5 ignores rope_parameters if there is the key of transformers 4, unless its value
  // is empty.
  const auto& json = reader.json();
  const bool is_version4 = json.contains("rope_scaling") && !json.at("rope_scaling").empty();
  const char* key = is_version4 ? "rope_scaling" : "rope_parameters";
  if (reader.has(key)) {
    auto scaling = reader.object(key);
    options.theta = scaling.number("rope_theta", options.theta);
    part = scaling.number(kPart, part);
    if (!default_part) scaling.require(kPart, 1.0);
    read_rotary_scaling(scaling, max_seq_len, original, options);
    scaling.finish();
  }
  if (part == 1.0) return options;
  const auto channels = static_cast<double>(head_dim) * part;
  const bool is_usable = channels >= 2 && channels <= static_cast<double>(head_dim) &&
                         static_cast<int64_t>(channels) % 2 == 0;
  if (!is_usable) {
    throw InputError(fmt::format(
        "`{}`: found {} of the {} channels of a head, `hidden_size` / `num_attention_heads`, which "
        "are {}, expected an even number of channels from 2 to {}",
        reader.has("rotary_pct") ? "rotary_pct" : kPart, part, head_dim, std::floor(channels),
        head_dim));
  }
  options.rotary_dim = static_cast<int64_t>(channels);
  return options;
}

/// Returns the value of `rope_scaling`; empty without scaling.
nlohmann::ordered_json rotary_scaling(const RotaryOptions& options) {
  // Published models do not have the scaling ntk.
  if (options.scaling == RotaryScaling::none || options.scaling == RotaryScaling::ntk) return {};
  nlohmann::ordered_json json{{"rope_type", to_string(options.scaling)},
                              {"factor", options.factor}};
  if (options.scaling == RotaryScaling::linear) return json;
  json["original_max_position_embeddings"] = options.original_max_seq_len;
  if (options.scaling == RotaryScaling::llama3) {
    json["low_freq_factor"] = options.low_freq_factor;
    json["high_freq_factor"] = options.high_freq_factor;
    return json;
  }
  json["beta_fast"] = options.beta_fast;
  json["beta_slow"] = options.beta_slow;
  json["truncate"] = options.truncate;
  if (options.attention_factor != 0.0) json["attention_factor"] = options.attention_factor;
  return json;
}

void write_rotary(ConfigKeys& keys, const RotaryOptions& options, double part) {
  const auto scaling = rotary_scaling(options);
  auto parameters = scaling;
  if (scaling.empty()) parameters["rope_type"] = "default";
  parameters["rope_theta"] = options.theta;
  if (part != 1.0) parameters["partial_rotary_factor"] = part;
  keys.write("rope_parameters", parameters);
  keys.write("rope_theta", options.theta);
  keys.write("rope_scaling", scaling);
  if (part != 1.0) keys.write("partial_rotary_factor", part);
}

}  // namespace

double partial_rotary_factor(int64_t rotary_dim, int64_t head_dim) {
  if (rotary_dim == 0) return 1.0;
  const auto width = static_cast<double>(head_dim);
  auto part = static_cast<double>(rotary_dim) / width;
  while (static_cast<int64_t>(width * part) < rotary_dim) part = std::nextafter(part, 1.0);
  return part;
}

void declare_rotary(ConfigKeys& keys, RotaryOptions& options, int64_t head_dim, int64_t max_seq_len,
                    double default_theta, std::optional<double> default_partial_rotary_factor) {
  if (!keys.reads()) {
    const bool writes_part = default_partial_rotary_factor.has_value();
    const auto part = partial_rotary_factor(options.rotary_dim, head_dim);
    return write_rotary(keys, options, writes_part ? part : 1.0);
  }
  options = read_rotary(keys.reader(), head_dim, max_seq_len, default_theta,
                        default_partial_rotary_factor);
}

const std::vector<Architecture>& architectures() {
  static const auto all = [] {
    std::vector<Architecture> list;
    for (const auto& family : {bert_architectures(), gpt2_architectures(), gpt_neox_architectures(),
                               llama_architectures(), t5_architectures()}) {
      list.insert(list.end(), family.begin(), family.end());
    }
    return list;
  }();
  return all;
}

}  // namespace attend
