#include "pretrained/sentence_settings.h"

#include "io/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace attend {
namespace {

namespace fs = std::filesystem;

/// Reads `config_sentence_transformers.json`. Returns the text that is put before each text.
std::string read_prompt(JsonFields& reader) {
  reader.require("model_type", "SentenceTransformer");
  reader.require("truncate_dim", nullptr);
  // The function with which users should compare vectors has no effect on the vectors.
  reader.ignore({"__version__", "similarity_fn_name", "prompts"});
  const auto name = reader.string("default_prompt_name", "");
  std::string prompt;
  if (reader.has("default_prompt_name")) {
    const bool is_known = reader.has("prompts") && reader.object("prompts").has(name);
    if (!is_known) reader.throw_unexpected("default_prompt_name", "a key of `prompts`");
    prompt = reader.object("prompts").string(name);
  }
  reader.finish();
  return prompt;
}

void read_pooling(JsonFields& reader, const std::string& prompt, SequenceClassifierConfig& config) {
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"}) {
    if (reader.size(key, config.stack.embed_dim) != config.stack.embed_dim) {
      reader.throw_unexpected(key,
                              fmt::format("{}, the width of the model", config.stack.embed_dim));
    }
  }
  // Older files have one key per kind of pooling, newer files the key pooling_mode.
  config.pooling = reader.choice<Pooling>(
      "pooling_mode", "mean",
      {{"mean", Pooling::mean}, {"cls", Pooling::first}, {"max", Pooling::max}});
  constexpr std::array<std::pair<const char*, Pooling>, 3> kKeys{
      {{"pooling_mode_mean_tokens", Pooling::mean},
       {"pooling_mode_cls_token", Pooling::first},
       {"pooling_mode_max_tokens", Pooling::max}}};
  int num_modes = 0;
  for (const auto& [key, pooling] : kKeys) {
    if (!reader.boolean(key, false)) continue;
    config.pooling = pooling;
    ++num_modes;
  }
  if (num_modes > 1)
    throw InputError(fmt::format("`pooling_mode_*`: found {} modes, expected one", num_modes));
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
                          "pooling_mode_lasttoken"}) {
    reader.require(key, false);
  }
  // Without a prompt, there is nothing to leave out.
  if (prompt.empty()) {
    reader.ignore({"include_prompt"});
  } else {
    reader.require("include_prompt", true);
  }
  reader.finish();
}

/// Reads module `index` of `modules.json`. Returns the folder of the pooling, which has its own
/// config; empty for other modules.
fs::path read_module(JsonFields& reader, std::size_t index, SequenceClassifierConfig& config) {
  constexpr std::array<std::string_view, 3> kNames{"Transformer", "Pooling", "Normalize"};
  const auto expected = kNames.at(std::min(index, kNames.size() - 1));
  const auto type = reader.string("type", "");
  if (type.substr(type.rfind('.') + 1) != expected) reader.throw_unexpected("type", expected);
  const fs::path place = reader.string("path", "");
  if (expected == "Transformer" && !place.empty())
    reader.throw_unexpected("path", "\"\", the folder of the model");
  if (expected == "Normalize") config.normalize = true;
  if (expected != "Pooling") return {};
  if (!is_file_name(place)) reader.throw_unexpected("path", "the name of a folder");
  return place;
}

/// Returns `sentence_bert_config.json` or the file that an older class of sentence-transformers
/// wrote instead; empty if there is none.
fs::path text_settings_file(const fs::path& folder) {
  for (const char* name :
       {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"}) {
    const auto path = file_in(folder, fmt::format("sentence_{}_config.json", name));
    if (fs::exists(path)) return path;
  }
  return {};
}

/// Returns the number of tokens of an empty text.
int64_t count_special_tokens(TextTokenizer tokenizer) {
  tokenizer.set_truncation(std::nullopt);
  tokenizer.set_padding(std::nullopt);
  return std::ssize(tokenizer.encode("").ids);
}

/// Requires that the settings of newer files have the values of an encoder of texts.
void require_text_task(JsonFields& reader) {
  reader.require("transformer_task", "feature-extraction");
  reader.require("module_output_name", "token_embeddings");
  reader.require("modality_config",
                 {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}});
  reader.require("processing_kwargs", nlohmann::json::object());
  reader.ignore({"unpad_inputs"});  // a speedup
}

/// Returns the maximum number of tokens that `tokenizer_config.json` contains, if there is one.
/// Without a maximum, the file contains 1e30.
int64_t tokenizer_max_length(const fs::path& folder, int64_t missing) {
  const auto path = file_in(folder, "tokenizer_config.json");
  if (!fs::exists(path)) return missing;
  return with_json_file(path, [&](JsonFields& reader) {
    const auto length = reader.number("model_max_length", static_cast<double>(missing));
    return length < static_cast<double>(missing) ? static_cast<int64_t>(length) : missing;
  });
}

}  // namespace

std::string read_sentence_settings(const fs::path& folder, SequenceClassifierConfig& config) {
  config.pooling = Pooling::mean;
  config.pooler = false;
  const auto path = file_in(folder, "modules.json");
  if (!fs::exists(path)) return "";
  const auto settings = file_in(folder, "config_sentence_transformers.json");
  const auto prompt = fs::exists(settings) ? with_json_file(settings, read_prompt) : std::string();
  const auto modules = with_source(path.string(), [&] { return parse_json(read_text(path)); });
  if (!modules.is_array() || modules.size() < 2) {
    throw InputError(
        fmt::format("{}: found {}, expected an array of the modules Transformer, "
                    "Pooling and perhaps Normalize",
                    path.string(), shown(modules)));
  }
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto pooling = with_source(path.string(), [&] {
      JsonFields reader(modules[i], fmt::format("[{}]", i));
      return read_module(reader, i, config);
    });
    if (!pooling.empty()) {
      with_json_file(file_in(folder, pooling / "config.json"),
                     [&](JsonFields& reader) { read_pooling(reader, prompt, config); });
    }
  }
  return prompt;
}

TextSettings read_text_settings(const fs::path& folder, const SequenceClassifierConfig& config,
                                const TextTokenizer& tokenizer) {
  const auto special = count_special_tokens(tokenizer);
  if (config.max_seq_len < special) {
    throw InputError(fmt::format(
        "{}: the model has {} positions, expected at least {}, the number of special tokens",
        (folder / "config.json").string(), config.max_seq_len, special));
  }
  TextSettings settings{.max_length = config.max_seq_len};
  const auto path = text_settings_file(folder);
  if (path.empty()) {
    if (tokenizer.truncation())
      settings.max_length = std::min(settings.max_length, tokenizer.truncation()->max_length);
    return settings;
  }
  with_json_file(path, [&](JsonFields& reader) {
    settings.lowercase = reader.boolean("do_lower_case", false);
    const auto length = reader.has("max_seq_length")
                            ? reader.size("max_seq_length", 0, std::max<int64_t>(special, 1))
                            : tokenizer_max_length(folder, config.max_seq_len);
    settings.max_length = std::min(config.max_seq_len, length);
    reader.ignore({"max_seq_length"});
    require_text_task(reader);
    reader.finish();
  });
  return settings;
}

}  // namespace attend
