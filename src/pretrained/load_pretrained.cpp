#include "attend/input_error.h"
#include "attend/io/load_weights.h"
#include "attend/pretrained/peft_adapter.h"
#include "attend/pretrained/pretrained.h"
#include "io/copy_state.h"
#include "io/dtypes.h"
#include "io/python_command.h"
#include "nn/new_layers.h"
#include "ops/in_parallel.h"
#include "pretrained/adapter_config.h"
#include "pretrained/adapter_weights.h"
#include "pretrained/pretrained_folder.h"
#include "pretrained/published_config.h"
#include "pretrained/sentence_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace attend {
namespace {

using Path = std::filesystem::path;

/// Replaces `from` at the end of `name`.
void replace_end(std::string& name, std::string_view from, std::string_view to) {
  if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
}

}  // namespace

/// The weights in the files of a folder, by their names in the declaration of an architecture.
class NamedWeights {
 public:
  NamedWeights(const Path& path, const Architecture& architecture) : files_(path) {
    for (const auto& [name, entry] : files_.entries()) {
      auto plain = name;
      // Prefixes that torch.nn.DataParallel and torch.compile add.
      for (const std::string_view prefix :
           {std::string_view("module."), std::string_view("_orig_mod."),
            std::string_view(architecture.prefix)}) {
        if (plain.starts_with(prefix)) plain.erase(0, prefix.size());
      }
      // Names of norms in old files of BERT.
      replace_end(plain, "LayerNorm.gamma", "LayerNorm.weight");
      replace_end(plain, "LayerNorm.beta", "LayerNorm.bias");
      const auto [other, is_new] = names_.emplace(plain, name);
      if (!is_new) {
        throw InputError(fmt::format("{}: '{}' and '{}' are the same weight",
                                     files_.file_of(name).string(), other->second, name));
      }
    }
  }

  bool contains(const std::string& name) const { return names_.count(name) > 0; }
  const std::map<std::string, std::string>& names() const { return names_; }
  const std::string& name_in_file(const std::string& name) const { return names_.at(name); }
  const std::vector<int64_t>& shape(const std::string& name) const { return entry(name).shape; }
  const std::string& dtype_in_file(const std::string& name) const { return entry(name).dtype; }
  /// Returns the dtype of a weight; empty if no model has it, such as that of quantized weights.
  std::optional<torch::ScalarType> dtype(const std::string& name) const {
    const auto* found = find_dtype(&Dtype::safetensors, dtype_in_file(name));
    return found != nullptr && is_model_dtype(found->type) ? std::optional(found->type)
                                                           : std::nullopt;
  }
  torch::Tensor read(const WeightRow& row) const {
    std::vector<torch::Tensor> parts;
    for (const auto& part : row.parts) parts.push_back(files_.read(names_.at(part.name)));
    return row.join(parts);
  }
  void read_into(const WeightRow& row, const torch::Tensor& weight) const {
    if (row.layout.kind != WeightLayout::rows) {
      weight.copy_(read(row));
      return;
    }
    int64_t begin = 0;
    for (const auto& part : row.parts) {  // without a copy of the tensors of the file
      const auto rows = part.shape.front();
      files_.read_into(names_.at(part.name), weight.narrow(0, begin, rows));
      begin += rows;
    }
  }

 private:
  const SafetensorsEntry& entry(const std::string& name) const {
    return files_.entries().at(names_.at(name));
  }

  SafetensorsFiles files_;
  std::map<std::string, std::string> names_;  // in the files
};

namespace {

/// Returns the option that ties the head to the token embedding; null if the model has none.
bool* tie_embeddings(ModelConfig& any) {
  if (auto* config = std::get_if<LanguageModelConfig>(&any)) return &config->tie_embeddings;
  if (auto* config = std::get_if<Seq2SeqConfig>(&any)) return &config->tie_embeddings;
  return nullptr;
}

/// Returns the row of a head that is tied to the token embedding, which a file may contain too.
std::optional<WeightRow> tied_head(const ModelConfig& any, const Architecture& architecture) {
  auto untied = any;
  auto* tied = tie_embeddings(untied);
  if (tied == nullptr || !std::exchange(*tied, false)) return std::nullopt;
  const auto rows = architecture.weights(untied);
  return *std::ranges::find(rows.all(), "head.weight", &WeightRow::name);
}

/// Shapes of tensors by name.
using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Gives an encoder the head of a classifier that its adapter contains, as the class for the
/// classification of sequences has it or, for the task type TOKEN_CLS, that for tokens.
void add_head_of_adapter(PublishedConfig& published, const Shapes& adapter,
                         const std::string& task_type) {
  auto* encoder = std::get_if<SequenceClassifierConfig>(&published.model);
  if (encoder == nullptr || encoder->num_classes > 0) return;
  const auto& architecture = *published.architecture;
  const bool of_tokens = task_type == "TOKEN_CLS";
  const auto end = of_tokens ? kTokenClassification : kClassification;
  const auto name = std::ranges::find_if(architecture.classes,
                                         [&](const auto& each) { return each.ends_with(end); });
  if (name == architecture.classes.end()) return;
  auto classifier = *encoder;
  classifier.num_classes = 1;  // of any classifier, for the name
  classifier.pooling = of_tokens ? Pooling::none : Pooling::first;
  const auto rows = architecture.weights(classifier);
  const auto& head = *std::ranges::find(rows.all(), "head.weight", &WeightRow::name);
  const auto found = adapter.find(head.parts.front().name);
  if (found == adapter.end()) return;
  const auto& shape = found->second;
  if (shape.size() != 2 || shape.front() < 1 || shape.back() != encoder->stack.embed_dim) return;
  encoder->num_classes = shape.front();
  encoder->pooling = classifier.pooling;
  encoder->pooler = !of_tokens;
  published.class_name = *name;
  for (int64_t i = 0; i < encoder->num_classes; ++i)
    published.classes.push_back(fmt::format("LABEL_{}", i));
}

/// Throws InputError if weights are missing, unexpected or misshapen, or if their dtype is not a
/// floating-point one of models. The message lists all. Those of `adapter` may be missing.
void check_weights(const Path& path, const NamedWeights& weights, const WeightRows& rows,
                   const std::optional<WeightRow>& tied_head, const Architecture& architecture,
                   const Shapes& adapter) {
  NamesByProblem problems;
  IncompatibleKeys keys;
  std::set<std::string> used;
  const auto check_dtype = [&](const std::string& name) {
    if (weights.dtype(name)) return;
    problems[fmt::format("found dtype {}, expected F64, F32, F16 or BF16",
                         weights.dtype_in_file(name))]
        .push_back(weights.name_in_file(name));
  };
  if (tied_head) {
    const auto& name = tied_head->parts.front().name;
    used.insert(name);
    if (weights.contains(name)) check_dtype(name);
  }
  for (const auto& row : rows.all()) {
    for (const auto& part : row.parts) {
      used.insert(part.name);
      if (!weights.contains(part.name)) {
        if (!adapter.contains(part.name)) keys.missing_keys.push_back(part.name);
      } else if (weights.shape(part.name) != part.shape) {
        problems[fmt::format("found shape ({}), expected ({})",
                             fmt::join(weights.shape(part.name), ", "),
                             fmt::join(part.shape, ", "))]
            .push_back(weights.name_in_file(part.name));
      } else {
        check_dtype(part.name);
      }
    }
  }
  for (const auto& [name, name_in_file] : weights.names()) {
    const auto is_part = [&, &name = name](const auto& part) {
      return name.find(part) != std::string::npos;
    };
    if (used.count(name) == 0 && std::ranges::none_of(architecture.ignored, is_part))
      keys.unexpected_keys.push_back(name_in_file);
  }
  const auto list = list_problems(std::move(problems), keys);
  if (!list.empty()) {
    throw InputError(
        fmt::format("{}: the weights do not match config.json: {}", path.string(), list));
  }
}

/// Throws InputError if the files have fewer tensors than the model has layers and experts. The
/// list of the weights of a million experts would need gigabytes.
void check_count(const Path& path, const NamedWeights& weights, const ModelConfig& any) {
  const auto& stack =
      std::visit([](const auto& config) -> const StackConfig& { return config.stack; }, any);
  const auto found = std::ssize(weights.names());
  if (found >= stack.min_tensors()) return;
  throw InputError(
      fmt::format("{}: found {} tensors, expected at least {}, because config.json has {} layers{}",
                  path.string(), found, stack.min_tensors(), stack.num_layers,
                  stack.num_experts > 0 ? fmt::format(" of {} experts", stack.num_experts) : ""));
}

/// If the files contain `head`, the head that `config.json` ties to the token embedding, and it
/// differs from the embedding: unties it, and returns a warning.
std::optional<std::string> untie_other_head(ModelConfig& config, const NamedWeights& weights,
                                            const std::optional<WeightRow>& head,
                                            const Architecture& architecture) {
  if (!head) return std::nullopt;
  const auto rows = architecture.weights(config);
  const auto& embedding = rows.all().front();
  // See `check_weights` for the others.
  const auto is_usable = [&](const WeightRow& row) {
    const auto& name = row.parts.front().name;
    return weights.contains(name) && weights.dtype(name);
  };
  if (!is_usable(*head) || !is_usable(embedding)) return std::nullopt;
  const auto head_weight = weights.read(*head);
  const auto embedding_weight = weights.read(embedding);
  const auto type = torch::promoteTypes(head_weight.scalar_type(), embedding_weight.scalar_type());
  if (head_weight.to(type).equal(embedding_weight.to(type))) return std::nullopt;
  *tie_embeddings(config) = false;
  return fmt::format(
      "config.json ties the head to the token embedding, but '{}' is different; the model uses it",
      weights.name_in_file(head->parts.front().name));
}

/// Returns the config of an encoder as the body of a new classifier, see `PretrainedFolder::Use`.
/// Returns other configs unchanged.
ModelConfig classifier_body(ModelConfig any, const Architecture& architecture) {
  auto* encoder = std::get_if<SequenceClassifierConfig>(&any);
  if (encoder == nullptr || encoder->num_classes > 0) return any;
  const auto classifies = [](const auto& name) { return name.ends_with(kClassification); };
  if (std::ranges::any_of(architecture.classes, classifies))
    set_classifier_body(*encoder);
  else
    encoder->normalize = false;
  return any;
}

/// Returns the config without the pooler, if the files do not contain its weights.
ModelConfig without_new_pooler(ModelConfig any, const NamedWeights& weights,
                               const Architecture& architecture) {
  auto* encoder = std::get_if<SequenceClassifierConfig>(&any);
  if (encoder == nullptr || !encoder->pooler || encoder->num_classes > 0) return any;
  const auto rows = architecture.weights(any);
  const auto& pooler = *std::ranges::find(rows.all(), "pooler.weight", &WeightRow::name);
  encoder->pooler = weights.contains(pooler.parts.front().name);
  return any;
}

/// Returns the name of the output matrix of a masked language model in the files; empty if there is
/// none, as that of a model whose matrix is the token embedding.
std::string lm_decoder(const NamedWeights& weights, const Architecture& architecture) {
  for (const auto& [name, name_in_file] : weights.names()) {
    if (name.starts_with(architecture.lm_head) &&
        (name.ends_with("decoder.weight") || name.ends_with("projector.weight"))) {
      return name;
    }
  }
  return "";
}

/// Gives the body of a classifier the head of a masked language model, if the files contain it.
/// Returns a warning if the head cannot be used.
std::optional<std::string> add_lm_head(ModelConfig& any, const NamedWeights& weights,
                                       const Architecture& architecture) {
  auto* encoder = std::get_if<SequenceClassifierConfig>(&any);
  if (encoder == nullptr || architecture.lm_head.empty()) return std::nullopt;
  auto other = any;
  std::get<SequenceClassifierConfig>(other).masked_lm = true;
  const auto rows = architecture.weights(other);
  const bool has_head = std::ranges::all_of(rows.all(), [&](const WeightRow& row) {
    return !row.name.starts_with("lm_") || weights.contains(row.parts.front().name);
  });
  if (!has_head) return std::nullopt;
  const auto refused = [](const std::string& why) {
    return fmt::format("the head of the masked language model is not used: {}", why);
  };
  // RobertaForMaskedLM has gelu in the head, whatever the activation of the blocks is.
  const auto activation = std::get<Activation>(encoder->stack.activation);
  if (architecture.lm_head == "lm_head." && activation != Activation::gelu) {
    return refused(fmt::format("found the activation {}, expected gelu, as in the head",
                               to_string(activation)));
  }
  const auto& embedding = rows.all().front();
  const auto decoder = lm_decoder(weights, architecture);
  const auto& shape = embedding.parts.front().shape;
  const WeightRow row{embedding.name, {{decoder, shape}}, embedding.layout};
  if (!decoder.empty() &&
      (weights.shape(decoder) != shape || !weights.read(row).equal(weights.read(embedding)))) {
    return refused(fmt::format("'{}' differs from the token embedding, expected the same values",
                               weights.name_in_file(decoder)));
  }
  encoder->masked_lm = true;
  return std::nullopt;
}

/// Reads the weights, except those that only the adapter contains, in all threads: most of the
/// time, each waits for the system to clear memory.
void load_weights(torch::nn::Module& module, const NamedWeights& weights, const WeightRows& rows) {
  auto destination = state_dict(module);
  std::vector<torch::Tensor> all;
  for (const auto& row : rows.all()) {
    const auto found = destination.find(row.name);
    TORCH_CHECK(found != destination.end(), "the model has no weight ", row.name);
    all.push_back(found->second);
    destination.erase(found);
  }
  TORCH_CHECK(destination.empty(), "no row for the weight ", destination.begin()->first);
  const auto load = [&](int64_t i) {
    const torch::NoGradGuard no_grad;
    const auto& row = rows.all()[i];
    if (!weights.contains(row.parts.front().name)) return;
    auto& weight = all[i];
    // 1 + w is not rounded to a dtype such as bfloat16, in which it has fewer digits than w.
    if (row.layout.kind == WeightLayout::unit_offset &&
        c10::isReducedFloatingType(weight.scalar_type())) {
      weight.set_data(weight.to(torch::kFloat));
    }
    weights.read_into(row, weight);
  };
  in_parallel(std::ssize(all), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) load(i);
  });
}

/// Returns a new model. Throws InputError if values of `config.json` contradict each other.
Model make(const ModelConfig& config, const Path& path) {
  try {
    return make_model(config);
  } catch (const c10::ValueError& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what_without_backtrace()));
  }
}

/// Returns the tokens that end a text: those of `config.json` and of `generation_config.json`.
std::vector<int64_t> eos_tokens(const Path& folder, const PublishedConfig& config) {
  auto all = config.eos_tokens;
  const auto path = file_in(folder, "generation_config.json");
  if (std::filesystem::exists(path)) {
    const auto more = with_json_file(
        path, [&](JsonFields& reader) { return read_eos_tokens(reader, config.model); });
    for (const auto token : more) {
      if (std::ranges::count(all, token) == 0) all.push_back(token);
    }
  }
  return all;
}

TextTokenizer load_tokenizer(const Path& folder) {
  const auto path = file_in(folder, "tokenizer.json");
  if (!std::filesystem::exists(path)) {
    throw InputError(fmt::format(
        "{}: is missing; write it with: {}", path.string(),
        python_command("import sys; from transformers import AutoTokenizer; "
                       "AutoTokenizer.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])",
                       {folder.string()})));
  }
  return TextTokenizer::load(path);
}

}  // namespace

bool is_pretrained(const Path& folder) {
  return std::filesystem::is_regular_file(folder / "config.json") || is_peft_adapter(folder);
}

struct PretrainedFolder::Content {
  Path config_path;
  PublishedConfig published;
  ModelConfig config;  ///< see `PretrainedFolder::config`
  NamedWeights weights;
  WeightRows rows;
  Pretrained description;
  Path adapter;  ///< empty if the folder contains the model itself
};

PretrainedFolder::PretrainedFolder(const Path& path, Use use) {
  const bool is_adapter = is_peft_adapter(path);
  const auto folder = is_adapter ? base_of_adapter(path) : path;
  const auto config_path = file_in(folder, "config.json");
  auto published = with_json_file(config_path, read_config);
  const auto& architecture = *published.architecture;
  const auto adapter = is_adapter ? shapes_in_adapter(path, architecture) : Shapes();
  if (is_adapter) {
    const auto task_type =
        with_json_file(file_in(path, kAdapterConfigFile), read_adapter_config).task_type;
    add_head_of_adapter(published, adapter, task_type);
  }
  auto& config = published.model;
  Pretrained description{.model = LanguageModel(nullptr), .tokenizer = load_tokenizer(folder)};
  description.folder = folder;
  description.model_type = architecture.model_type;
  description.classes = published.classes;
  description.eos_tokens = eos_tokens(folder, published);
  description.decoder_start_token = published.decoder_start_token;

  auto& tokenizer = description.tokenizer;
  std::optional<TruncationOptions> truncation;
  if (auto* encoder = std::get_if<SequenceClassifierConfig>(&config)) {
    if (encoder->num_classes == 0) description.prompt = read_sentence_settings(folder, *encoder);
    const auto settings = read_text_settings(folder, *encoder, tokenizer);
    description.lowercase = settings.lowercase;
    truncation = tokenizer.truncation().value_or(TruncationOptions());
    truncation->max_length = settings.max_length;
  }
  tokenizer.set_truncation(truncation);
  tokenizer.set_padding(std::nullopt);  // the model masks padding of any length
  if (std::holds_alternative<LanguageModelConfig>(config)) {
    try {
      description.chat_template = load_chat_template(folder);
    } catch (const InputError& error) {  // the model can be used without it
      description.warnings.emplace_back(error.what());
    }
  }

  const auto file = weights_file(folder);
  NamedWeights weights(file, architecture);
  check_count(file, weights, config);
  const auto head = tied_head(config, architecture);
  if (const auto warning = untie_other_head(config, weights, head, architecture))
    description.warnings.push_back(*warning);
  auto with_pooler = use == Use::classifier ? classifier_body(config, architecture) : config;
  if (use == Use::classifier) {
    config = without_new_pooler(with_pooler, weights, architecture);
    if (const auto warning = add_lm_head(config, weights, architecture))
      description.warnings.push_back(*warning);
  }
  // The adapter of a tied head unties it when the model is loaded; the files contain it once.
  if (head && adapts(adapter, head->parts.front().name)) *tie_embeddings(with_pooler) = false;
  auto rows = architecture.weights(config);
  check_weights(file, weights, rows, head, architecture, adapter);
  content_ = std::make_shared<Content>(Content{.config_path = config_path,
                                               .published = std::move(published),
                                               .config = std::move(with_pooler),
                                               .weights = std::move(weights),
                                               .rows = std::move(rows),
                                               .description = std::move(description),
                                               .adapter = is_adapter ? path : Path()});
}

void set_classifier_body(SequenceClassifierConfig& encoder) {
  encoder.pooling = Pooling::first;
  encoder.pooler = true;
  encoder.normalize = false;
}

const Pretrained& PretrainedFolder::description() const {
  return content_->description;
}

const ModelConfig& PretrainedFolder::config() const {
  return content_->config;
}

torch::ScalarType PretrainedFolder::dtype() const {
  const auto& name = content_->rows.all().front().parts.front().name;
  return content_->published.dtype ? *content_->published.dtype : *content_->weights.dtype(name);
}

Pretrained PretrainedFolder::load(const PretrainedOptions& options) const {
  check_dtype_option(options.dtype);
  const auto& [config_path, published, config, weights, rows, description, adapter] = *content_;
  const auto type = options.dtype.value_or(dtype());
  const UninitializedWeights guard(type);
  auto pretrained = description;
  pretrained.model = make(published.model, config_path);
  auto& module = module_of(pretrained.model);
  module.to(options.device, type);
  load_weights(module, weights, rows);
  module.eval();
  if (!adapter.empty()) load_peft_adapter(pretrained, adapter);
  return pretrained;
}

torch::ScalarType pretrained_dtype(const Path& folder) {
  return PretrainedFolder(folder).dtype();
}

Pretrained load_pretrained(const Path& folder, const PretrainedOptions& options) {
  check_dtype_option(options.dtype);
  return PretrainedFolder(folder).load(options);
}

}  // namespace attend
