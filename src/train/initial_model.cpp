#include "attend/train/initial_model.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/nn/lora.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/task.h"
#include "pretrained/pretrained_folder.h"
#include "train/checksum.h"
#include "train/source_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// Returns the task whose data has the form of the model's input.
const char* task_of(const ModelConfig& config, const Pretrained& published,
                    const fs::path& folder) {
  if (std::holds_alternative<LanguageModelConfig>(config)) return "text";
  if (const auto* classifier = std::get_if<SequenceClassifierConfig>(&config))
    return classifier->pooling == Pooling::none ? "token-classification" : "labelled-lines";
  throw InputError(fmt::format(
      "{}: found the model type {}, a seq2seq, expected a language model or an encoder, since no "
      "task reads texts for a seq2seq; the commands generate, inspect and export accept the folder "
      "itself",
      folder.string(), published.model_type));
}

/// Throws InputError for an encoder that changes its texts in a way that a run does not, and for a
/// classifier that computes a score.
void check_texts_and_classes(const Pretrained& published, const fs::path& folder) {
  if (!published.prompt.empty() || published.lowercase) {
    throw InputError(fmt::format(
        "{}: found {}, which a run does not have; the commands that need no training accept the "
        "folder itself",
        folder.string(),
        published.lowercase ? std::string("do_lower_case")
                            : fmt::format("the prompt '{}'", printable(published.prompt))));
  }
  if (published.classes.size() == 1) {
    throw InputError(
        fmt::format("{}: the model has 1 class, whose logit is a score, expected 2 or more classes",
                    folder.string()));
  }
}

Recipe recipe_of(const ModelConfig& config, const Pretrained& published, const fs::path& folder) {
  check_texts_and_classes(published, folder);
  auto recipe = find_task(task_of(config, published, folder)).defaults;
  recipe.data.tokenizer = TokenizerKind::published;
  recipe.model = config;
  check_recipe(recipe);
  return recipe;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const ModelConfig& config,
                                              const Pretrained& published) {
  PublishedModel model{.model_type = published.model_type,
                       .eos_tokens = published.eos_tokens,
                       .chat_template = published.chat_template};
  if (const auto* decoder = std::get_if<LanguageModelConfig>(&config))
    model.vocab_size = decoder->vocab_size;
  else
    model.vocab_size = std::get<SequenceClassifierConfig>(config).vocab_size;
  if (const auto& truncation = published.tokenizer.truncation())
    model.max_length = truncation->max_length;
  return std::make_shared<PublishedTokenizer>(published.tokenizer, model);
}

/// `config`: that of the run, which may have more than the model of `published`. Merges the
/// adapters of the model: a run with adapters has a base model, and the options of `add_lora`.
Run run_of(const ModelConfig& config, const Pretrained& published, const fs::path& folder) {
  Run run{.recipe = recipe_of(config, published, folder),
          .tokenizer = tokenizer_of(config, published),
          .classes = published.classes,
          .data_checksum = "",
          .model = published.model};
  run.merge_adapters();
  return run;
}

/// Returns a checksum of stored tensors and of the scales of the adapters of `module`. `base`: the
/// checksum of a base model whose tensors are not in `tensors`.
std::string stored_checksum(const std::map<std::string, torch::Tensor>& tensors,
                            const torch::nn::Module& module, const std::string& base = "") {
  const auto own = checksum_of(tensors);
  auto other = base;
  for (const auto& each : lora_adapters(module))
    other += fmt::format(" {}{}", each.prefix(), each.adapter->options.scale());
  return other.empty() ? own : checksum_text(crc32c(own + other));
}

/// Returns the checksum of the files of a published model that a run depends on.
std::string checksum_of_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename();
    if (name.extension() == ".safetensors" || name == "config.json" || name == "tokenizer.json" ||
        name == "adapter_config.json") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  uint32_t checksum = 0;
  for (const auto& file : files) checksum = crc32c_of_file(file, checksum);
  return checksum_text(checksum);
}

}  // namespace

InitialModel::InitialModel(fs::path path) : path_(std::move(path)) {
  if (is_pretrained(path_)) {
    folder_ = std::make_shared<PretrainedFolder>(path_, PretrainedFolder::Use::classifier);
    recipe();  // throws for a model without a task
  } else if (!RunDirectory::exists(path_)) {
    try {
      RunDirectory::open(path_);
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("{}; not a published model either: it has no config.json", error.what()));
    }
  }
}

Recipe InitialModel::recipe() const {
  if (!is_published()) return merged_recipe(RunDirectory::open(path_).recipe());
  return recipe_of(folder_->config(), folder_->description(), path_);
}

std::vector<std::string> InitialModel::classes() const {
  return is_published() ? folder_->description().classes
                        : RunDirectory::open(path_).record().classes;
}

std::shared_ptr<const Tokenizer> InitialModel::tokenizer() const {
  if (!is_published()) return load_run_tokenizer(path_);
  return tokenizer_of(folder_->config(), folder_->description());
}

std::string InitialModel::id() const {
  return is_published() ? checksum_of_folder(path_) : RunDirectory::open(path_).record().run_id;
}

std::vector<std::string> InitialModel::warnings() const {
  return is_published() ? folder_->description().warnings : std::vector<std::string>();
}

Run InitialModel::load(std::string* checksum) const {
  if (is_published()) {
    const auto published = folder_->load({.dtype = torch::kFloat});
    const auto& module = module_of(published.model);
    if (checksum != nullptr) *checksum = stored_checksum(state_dict(module), module);
    return run_of(folder_->config(), published, path_);
  }
  const auto directory = RunDirectory::open(path_);
  auto run = directory.load();
  if (checksum != nullptr) {
    const auto& module = module_of(run.model);
    const auto& base = directory.record().base;
    *checksum = base ? stored_checksum(directory.state_dict(Weights::best), module, base->checksum)
                     : stored_checksum(state_dict(module), module);
  }
  return run;
}

Run published_run(const Pretrained& pretrained, const fs::path& folder) {
  const auto config =
      std::visit([](const auto& model) -> ModelConfig { return model->config; }, pretrained.model);
  return run_of(config, pretrained, folder);
}

}  // namespace attend::train
