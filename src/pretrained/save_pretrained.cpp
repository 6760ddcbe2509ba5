#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/lora.h"
#include "attend/pretrained/pretrained.h"
#include "io/new_folder.h"
#include "pretrained/config_differences.h"
#include "pretrained/publish.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace attend {
namespace {

using Path = std::filesystem::path;
using Json = nlohmann::ordered_json;

/// Returns the class of an architecture that has the head of the model, if there is one.
std::string class_of(const Architecture& architecture, const ModelConfig& config) {
  const auto* classifier = std::get_if<SequenceClassifierConfig>(&config);
  std::string_view end;
  if (classifier != nullptr && classifier->masked_lm)
    end = kMaskedLm;
  else if (classifier != nullptr && classifier->num_classes > 0)
    end = classifier->pooling == Pooling::none ? kTokenClassification : kClassification;
  const auto has_head = [&](const auto& name) { return !end.empty() && name.ends_with(end); };
  const auto found = std::ranges::find_if(architecture.classes, has_head);
  return found != architecture.classes.end() ? *found : architecture.classes.front();
}

/// Returns what a model with the written config has in another way, or an empty list.
std::vector<std::string> differences(const PublishedConfig& published) {
  const auto json = nlohmann::json::parse(write_config(published).dump());
  JsonFields reader(json, "");
  auto expected = explicit_config(read_config(reader).model);
  const auto* encoder = std::get_if<SequenceClassifierConfig>(&published.model);
  if (encoder != nullptr && encoder->num_classes == 0) {  // see `write_sentence_settings`
    auto& other = std::get<SequenceClassifierConfig>(expected);
    other.pooling = encoder->pooling;
    other.normalize = encoder->normalize;
    if (published.class_name.ends_with(kMaskedLm)) other.masked_lm = encoder->masked_lm;
  }
  if (const auto* seq2seq = std::get_if<Seq2SeqConfig>(&published.model))  // T5 has no maximum
    std::get<Seq2SeqConfig>(expected).max_seq_len = seq2seq->max_seq_len;
  return config_differences(published.model, expected);
}

/// Throws InputError if `model_type`, unless it is empty, is not an architecture of the kind of
/// model that `config` is.
void check_model_type(const std::string& model_type, const ModelConfig& config) {
  std::vector<std::string_view> expected;
  for (const auto& architecture : architectures()) {
    if (architecture.base.index() == config.index()) expected.emplace_back(architecture.model_type);
  }
  if (model_type.empty() || std::ranges::count(expected, model_type) > 0) return;
  throw InputError(fmt::format("the model is a {}, found model_type {}, expected one of {}",
                               model_kind(config), model_type, fmt::join(expected, ", ")));
}

/// Returns the tensors of the file by name.
std::map<std::string, torch::Tensor> tensors_of(const Model& model,
                                                const PublishedConfig& published) {
  const auto& architecture = *published.architecture;
  if (!lora_adapters(module_of(model)).empty()) {
    throw InputError(fmt::format(
        "the model has low-rank adapters, expected none, since a folder of {} has only weights: "
        "merge them (--merge), or write them as an adapter of PEFT (--format peft)",
        architecture.model_type));
  }
  const auto state = state_dict(module_of(model));
  const auto rows = architecture.weights(published.model);
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& row : rows.all()) {
    auto parts = row.split(state.at(row.name).detach());
    for (auto& part : parts) part = part.to(*published.dtype);  // the norms of Gemma are in float32
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& name = row.parts[i].name;
      const auto [other, is_new] = tensors.emplace(name_in_class(published, name), parts[i]);
      if (!is_new && !other->second.equal(parts[i])) {
        throw InputError(
            fmt::format("'{}': the model has other values than in a weight that {} "
                        "shares with it",
                        row.name, architecture.model_type));
      }
    }
  }
  TORCH_CHECK(state.size() == rows.all().size(), "no row for a weight of the model");
  return tensors;
}

void write_json(const Path& path, const Json& json) {
  replace_file(path, json.dump(2) + "\n");
}

/// Writes the files of sentence-transformers.
void write_sentence_settings(const Path& folder, const SequenceClassifierConfig& config,
                             const Pretrained& pretrained) {
  constexpr const char* kTypes = "sentence_transformers.models.";
  constexpr const char* kPooling = "1_Pooling";
  Json modules;
  const auto add = [&](const std::string& type, const std::string& path) {
    modules.push_back({{"idx", modules.size()},
                       {"name", std::to_string(modules.size())},
                       {"path", path},
                       {"type", kTypes + type}});
  };
  add("Transformer", "");
  add("Pooling", kPooling);
  if (config.normalize) add("Normalize", "2_Normalize");
  write_json(folder / "modules.json", modules);
  std::filesystem::create_directory(folder / kPooling);
  write_json(folder / kPooling / "config.json",
             {{"word_embedding_dimension", config.stack.embed_dim},
              {"pooling_mode_cls_token", config.pooling == Pooling::first},
              {"pooling_mode_mean_tokens", config.pooling == Pooling::mean},
              {"pooling_mode_max_tokens", config.pooling == Pooling::max},
              {"pooling_mode_mean_sqrt_len_tokens", false}});
  const auto& truncation = pretrained.tokenizer.truncation();
  const auto length = truncation ? truncation->max_length : config.max_seq_len;
  write_json(folder / "sentence_bert_config.json",
             {{"max_seq_length", length}, {"do_lower_case", pretrained.lowercase}});
  if (pretrained.prompt.empty()) return;
  write_json(folder / "config_sentence_transformers.json",
             {{"prompts", {{"default", pretrained.prompt}}}, {"default_prompt_name", "default"}});
}

/// Returns the settings that the tokenizers of transformers need to pad and to end texts.
Json tokenizer_config(const Pretrained& pretrained, const Architecture& architecture,
                      int64_t max_seq_len) {
  Json json{{"tokenizer_class", "PreTrainedTokenizerFast"},
            {"model_max_length", max_seq_len},
            {"clean_up_tokenization_spaces", false}};
  const auto write = [&](const char* key, int64_t id) {
    if (const auto token = pretrained.tokenizer.id_to_token(id)) json[key] = *token;
  };
  if (!pretrained.eos_tokens.empty()) write("eos_token", pretrained.eos_tokens.front());
  if (pretrained.chat_template) {
    for (const auto& [key, token] : pretrained.chat_template->special_tokens()) json[key] = token;
  }
  // The padding of an encoder is masked; the default of pad_token_id is 0.
  if (std::holds_alternative<SequenceClassifier>(pretrained.model))
    write("pad_token", std::max<int64_t>(architecture.padding_token, 0));
  for (const char* token : {"[MASK]", "<mask>"}) {
    if (pretrained.tokenizer.token_to_id(token)) json["mask_token"] = token;
  }
  return json;
}

}  // namespace

ModelConfig config_of(const Model& model) {
  return std::visit([](const auto& any) -> ModelConfig { return any->config; }, model);
}

PublishedConfig publish(const Pretrained& pretrained, const SavePretrainedOptions& options) {
  const auto config = explicit_config(config_of(pretrained.model));
  check_model_type(pretrained.model_type, config);
  const auto parameters = module_of(pretrained.model).parameters();
  constexpr std::size_t kUnreadable = 100;  // as many differences as no readable config has
  std::string nearest;
  std::size_t fewest = SIZE_MAX;
  for (const auto& architecture : architectures()) {
    if (architecture.base.index() != config.index()) continue;
    if (!pretrained.model_type.empty() && pretrained.model_type != architecture.model_type)
      continue;
    PublishedConfig published{.architecture = &architecture,
                              .class_name = class_of(architecture, config),
                              .model = config,
                              .dtype = options.dtype.value_or(parameters.front().scalar_type()),
                              .classes = pretrained.classes,
                              .eos_tokens = pretrained.eos_tokens,
                              .decoder_start_token = pretrained.decoder_start_token};
    std::vector<std::string> list;
    try {
      list = differences(published);
      if (list.empty()) return published;
    } catch (const InputError& error) {  // a number is out of the range of a key
      list.assign(kUnreadable, error.what());
    }
    if (list.size() >= fewest) continue;
    fewest = list.size();
    if (fewest == kUnreadable) list.resize(1);
    nearest = fmt::format("{}: {}", architecture.model_type, fmt::join(list, "; "));
  }
  throw InputError(fmt::format(
      "no architecture of published models has the options of this model; the nearest is {}",
      nearest));
}

std::string name_in_class(const PublishedConfig& published, const std::string& name) {
  const auto& architecture = *published.architecture;
  // A base class, such as BertModel, has no prefix.
  const bool is_base =
      published.class_name.ends_with("Model") && !published.class_name.ends_with("LMHeadModel");
  const auto begins_with = [&](const std::string& head) {
    return !head.empty() && (name + ".").starts_with(head);
  };
  const bool is_head = begins_with(architecture.head) || begins_with(architecture.lm_head);
  return is_base || is_head ? name : architecture.prefix + name;
}

void check_is_new(const Path& folder) {
  if (folder.empty()) throw InputError("expected the name of a folder, found ''");
  if (!std::filesystem::exists(folder)) return;
  if (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder))
    throw InputError(fmt::format("{}: exists and is not an empty folder", folder.string()));
  if (std::filesystem::equivalent(folder, std::filesystem::current_path())) {
    throw InputError(fmt::format("{}: is the current folder, expected the name of a new folder",
                                 folder.string()));
  }
}

void save_pretrained(const Pretrained& pretrained, const Path& folder,
                     const SavePretrainedOptions& options) {
  check_dtype_option(options.dtype);
  const auto published = publish(pretrained, options);
  const auto tensors = tensors_of(pretrained.model, published);
  const auto max_seq_len =
      std::visit([](const auto& config) { return config.max_seq_len; }, published.model);
  check_is_new(folder);
  NewFolder target(folder);
  write_json(target.path() / "config.json", write_config(published));
  replace_file(target.path() / "tokenizer.json", pretrained.tokenizer.json());
  write_json(target.path() / "tokenizer_config.json",
             tokenizer_config(pretrained, *published.architecture, max_seq_len));
  if (pretrained.chat_template)
    replace_file(target.path() / "chat_template.jinja", pretrained.chat_template->source());
  const auto* encoder = std::get_if<SequenceClassifierConfig>(&published.model);
  if (encoder != nullptr && encoder->num_classes == 0 && !encoder->masked_lm)
    write_sentence_settings(target.path(), *encoder, pretrained);
  save_safetensors(target.path() / "model.safetensors",
                   {.tensors = tensors, .metadata = {{"format", "pt"}}});
  target.finish();
}

}  // namespace attend
