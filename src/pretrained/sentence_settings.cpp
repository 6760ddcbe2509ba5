#include "pretrained/sentence_settings.h"

#include "io/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace attend {
namespace {

void read_pooling(JsonFields& reader, SequenceClassifierConfig& config) {
  const auto width = reader.size("word_embedding_dimension", config.stack.embed_dim);
  if (width != config.stack.embed_dim) {
    reader.throw_unexpected("word_embedding_dimension",
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
  if (num_modes > 1)
    throw InputError(fmt::format("`pooling_mode_*`: found {} modes, expected one", num_modes));
  for (const char* key : {"pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
                          "pooling_mode_lasttoken"}) {
    reader.require(key, false);
  }
  reader.require("include_prompt", true);
  reader.finish();
}

/// Reads a module of `modules.json`. Returns the folder of a pooling, which has its own config;
/// empty for other modules.
std::filesystem::path read_module(JsonFields& reader, SequenceClassifierConfig& config) {
  const auto type = reader.string("type", "");
  const auto name = type.substr(type.rfind('.') + 1);
  const std::filesystem::path place = reader.string("path", "");
  if (name == "Pooling") {
    if (place.filename() != place) reader.throw_unexpected("path", "the name of a folder");
    return place;
  }
  if (name == "Normalize") {
    config.normalize = true;
  } else if (name != "Transformer" || !place.empty()) {
    reader.throw_unexpected("type", "Transformer with an empty path, Pooling or Normalize");
  }
  return {};
}

}  // namespace

void read_sentence_settings(const std::filesystem::path& folder, SequenceClassifierConfig& config) {
  config.pooling = Pooling::mean;
  config.pooler = false;
  const auto path = folder / "modules.json";
  if (!std::filesystem::exists(path)) return;
  const auto modules = with_source(path.string(), [&] { return parse_json(read_text(path)); });
  if (!modules.is_array()) {
    throw InputError(
        fmt::format("{}: found {}, expected a list of modules", path.string(), shown(modules)));
  }
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto pooling = with_source(path.string(), [&] {
      JsonFields reader(modules[i], fmt::format("[{}]", i));
      return read_module(reader, config);
    });
    if (!pooling.empty()) {
      with_json_file(folder / pooling / "config.json",
                     [&](JsonFields& reader) { read_pooling(reader, config); });
    }
  }
}

int64_t max_text_length(const std::filesystem::path& folder, const SequenceClassifierConfig& config,
                        const TextTokenizer& tokenizer) {
  auto length = config.max_seq_len;
  const auto path = folder / "sentence_bert_config.json";
  if (std::filesystem::exists(path)) {
    return std::min(length, with_json_file(path, [&](JsonFields& reader) {
                      return reader.size("max_seq_length", length);
                    }));
  }
  if (tokenizer.truncation()) length = std::min(length, tokenizer.truncation()->max_length);
  return length;
}

}  // namespace attend
