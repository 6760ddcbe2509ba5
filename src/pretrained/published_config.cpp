#include "pretrained/published_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend {
namespace {

constexpr std::array<std::pair<std::string_view, torch::ScalarType>, 4> kModelDtypes{
    {{"float32", torch::kFloat},
     {"float64", torch::kDouble},
     {"float16", torch::kHalf},
     {"bfloat16", torch::kBFloat16}}};

/// Returns the architecture that `config.json` names. Throws InputError if it is not supported.
const Architecture& find_architecture(JsonFields& reader) {
  const auto model_type = reader.string("model_type", "");
  std::vector<std::string_view> supported;
  for (const auto& architecture : architectures()) {
    if (architecture.model_type == model_type) return architecture;
    supported.emplace_back(architecture.model_type);
  }
  reader.throw_unexpected("model_type", fmt::format("one of {}", fmt::join(supported, ", ")));
}

/// Returns the class that `config.json` names, such as BertModel. Throws InputError if it is not
/// supported.
std::string find_class(JsonFields& reader, const Architecture& architecture) {
  const auto names = reader.strings("architectures");
  if (names.empty()) return architecture.classes.front();
  if (names.size() == 1 && std::ranges::count(architecture.classes, names.front()) > 0)
    return names.front();
  throw InputError(fmt::format("`architectures`: found {}, expected one of {}",
                               fmt::join(names, ", "), fmt::join(architecture.classes, ", ")));
}

/// Returns the number of tokens that the model can generate; empty for an encoder.
std::optional<int64_t> generated_vocab_size(const ModelConfig& config) {
  if (const auto* seq2seq = std::get_if<Seq2SeqConfig>(&config)) return seq2seq->target_vocab_size;
  if (const auto* decoder = std::get_if<LanguageModelConfig>(&config)) return decoder->vocab_size;
  return std::nullopt;
}

/// Returns the names of the classes of a classifier, as in transformers.
std::vector<std::string> read_classes(JsonFields& reader, const ModelConfig& config) {
  const auto* classifier = std::get_if<SequenceClassifierConfig>(&config);
  std::vector<std::string> classes;
  for (int64_t i = 0; classifier != nullptr && i < classifier->num_classes; ++i) {
    classes.push_back(reader.has("id2label") ? reader.object("id2label").string(std::to_string(i))
                                             : fmt::format("LABEL_{}", i));
  }
  return classes;
}

void write_classes(ConfigKeys& keys, const std::vector<std::string>& classes) {
  nlohmann::ordered_json names, ids;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    names[std::to_string(i)] = classes[i];
    ids[classes[i]] = i;
  }
  keys.write("id2label", names);
  keys.write("label2id", ids);
}

}  // namespace

bool is_model_dtype(torch::ScalarType dtype) {
  return std::ranges::count(kModelDtypes, dtype, [](const auto& each) { return each.second; }) > 0;
}

void check_dtype_option(const std::optional<torch::ScalarType>& dtype) {
  TORCH_CHECK_VALUE(!dtype || is_model_dtype(*dtype),
                    "dtype must be float32, float64, float16 or bfloat16, found ",
                    c10::getDtypeNames(dtype.value_or(torch::kFloat)).first);
}

std::vector<int64_t> read_eos_tokens(JsonFields& reader, const ModelConfig& config) {
  auto tokens = reader.integers("eos_token_id");
  const auto vocab_size = generated_vocab_size(config);
  for (const auto token : tokens) {
    if (!vocab_size || (token >= 0 && token < *vocab_size)) continue;
    throw InputError(fmt::format(
        "`eos_token_id`: found {}, expected tokens from 0 to {}, because vocab_size is {}", token,
        *vocab_size - 1, *vocab_size));
  }
  return tokens;
}

PublishedConfig read_config(JsonFields& reader) {
  const auto& architecture = find_architecture(reader);
  PublishedConfig config{.architecture = &architecture,
                         .class_name = find_class(reader, architecture),
                         .model = architecture.base};
  ConfigKeys keys(reader, config.class_name);
  architecture.declare(keys, config.model);
  const char* dtype = reader.has("dtype") ? "dtype" : "torch_dtype";
  if (reader.has(dtype) && reader.json().at(dtype) != "auto")
    config.dtype = reader.choice<torch::ScalarType>(dtype, "", kModelDtypes);
  config.classes = read_classes(reader, config.model);
  config.eos_tokens = read_eos_tokens(reader, config.model);
  const char* start = "decoder_start_token_id";
  const auto vocab_size = generated_vocab_size(config.model);
  if (reader.has(start) && vocab_size)
    config.decoder_start_token = reader.size(start, 0, /*min=*/0, *vocab_size - 1);
  ignore_common_keys(reader);
  reader.require("is_encoder_decoder", std::holds_alternative<Seq2SeqConfig>(config.model));
  reader.finish();
  return config;
}

nlohmann::ordered_json write_config(const PublishedConfig& published) {
  nlohmann::ordered_json json;
  ConfigKeys keys(json, published.class_name);
  keys.write("architectures", nlohmann::ordered_json::array({published.class_name}));
  keys.write("model_type", published.architecture->model_type);
  auto dtype = published.dtype.value_or(torch::kFloat);
  for (const char* key : {"dtype", "torch_dtype"}) keys.choice(key, dtype, "", kModelDtypes);
  keys.write("is_encoder_decoder", std::holds_alternative<Seq2SeqConfig>(published.model));
  if (std::holds_alternative<LanguageModelConfig>(published.model)) {
    // The defaults of a class may be out of range in another vocabulary.
    keys.write("bos_token_id", nullptr);
    keys.write("pad_token_id", nullptr);
  }
  const auto& eos = published.eos_tokens;
  keys.write("eos_token_id", eos.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(eos));
  if (published.decoder_start_token)
    keys.write("decoder_start_token_id", *published.decoder_start_token);
  if (!published.classes.empty()) write_classes(keys, published.classes);
  auto config = published.model;
  published.architecture->declare(keys, config);
  return json;
}

}  // namespace attend
