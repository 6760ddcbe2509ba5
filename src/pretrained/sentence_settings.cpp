#include "pretrained/sentence_settings.h"

#include "io/files.h"
#include "io/parse_json.h"
#include "pretrained/config_reader.h"

#include <algorithm>
#include <array>

namespace attend {
namespace {

void read_pooling(const std::filesystem::path& path, SequenceClassifierConfig& config) {
  ConfigReader reader(path);
  const auto width = reader.integer("word_embedding_dimension", config.stack.embed_dim);
  if (width != config.stack.embed_dim) {
    reader.fail("word_embedding_dimension", std::to_string(width),
                fmt::format("{}, the width of the model", config.stack.embed_dim));
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
  if (num_modes > 1) reader.fail("pooling_mode_*", fmt::format("{} modes", num_modes), "one mode");
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
                          "pooling_mode_lasttoken"}) {
    reader.require(key, false);
  }
  reader.require("include_prompt", true);
  reader.finish();
}

}  // namespace

void read_sentence_settings(const std::filesystem::path& folder, SequenceClassifierConfig& config) {
  config.pooling = Pooling::mean;
  config.pooler = false;
  const auto path = folder / "modules.json";
  if (!std::filesystem::exists(path)) return;
  const auto modules = with_source(path.string(), [&] { return parse_json(read_text(path)); });
  if (!modules.is_array()) {
    throw InputError(fmt::format("{}: found {}, expected a list of modules", path.string(),
                                 modules.type_name()));
  }
  for (const auto& module : modules) {
    ConfigReader reader(path, "module.", module);
    const auto type = reader.text("type");
    const auto name = type.substr(type.rfind('.') + 1);
    const std::filesystem::path place = reader.text("path");
    if (name == "Pooling") {
      if (place.filename() != place) reader.fail("path", place.string(), "the name of a folder");
      read_pooling(folder / place / "config.json", config);
    } else if (name == "Normalize") {
      config.normalize = true;
    } else if (name != "Transformer" || !place.empty()) {
      reader.fail("type", fmt::format("{} in '{}'", type, place.string()),
                  "Transformer in '', Pooling or Normalize");
    }
  }
}

int64_t max_text_length(const std::filesystem::path& folder, const SequenceClassifierConfig& config,
                        const TextTokenizer& tokenizer) {
  auto length = config.max_seq_len;
  const auto path = folder / "sentence_bert_config.json";
  if (std::filesystem::exists(path)) {
    ConfigReader reader(path);
    return std::min(length, reader.integer("max_seq_length", length));
  }
  if (tokenizer.truncation()) length = std::min(length, tokenizer.truncation()->max_length);
  return length;
}

}  // namespace attend
