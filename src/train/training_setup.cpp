#include "attend/train/training_setup.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/lora.h"
#include "attend/train/device.h"
#include "attend/train/recipe_fields.h"
#include "models/classifier_head.h"
#include "pretrained/pretrained_folder.h"
#include "train/run_record.h"
#include "train/source_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace attend::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

constexpr std::array<std::string_view, 3> kTokenizerKeys{"tokenizer", "vocab_size", "unknown"};

bool is_tokenizer_key(const RecipeField& field) {
  return std::ranges::find(kTokenizerKeys, field.key) != kTokenizerKeys.end() &&
         field.section == std::string_view("data");
}

bool is_model_key(const RecipeField& field) {
  return field.section == std::string_view("model");
}

std::string shape_of(const Tensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? "none"
                                : fmt::format("shape ({})", fmt::join(found->second.sizes(), ", "));
}

/// Sets the outputs of a classifier to those of the default model of its task, or those of a
/// published classifier, if `recipe` has those of another task: the sequence, each token or masked
/// tokens.
void set_outputs(const ModelConfig& defaults, Recipe& recipe) {
  auto* config = std::get_if<SequenceClassifierConfig>(&recipe.model);
  if (config == nullptr) return;
  const auto& wanted = std::get<SequenceClassifierConfig>(defaults);
  if (config->predicts_tokens() == wanted.predicts_tokens() &&
      config->masked_lm == wanted.masked_lm) {
    return;
  }
  config->masked_lm = wanted.masked_lm;
  config->pooling = wanted.pooling;
  config->pooler = wanted.pooler;
  config->normalize = wanted.normalize;
  // BERT and RoBERTa have token types and a class for the classification of sequences, DistilBERT
  // has neither.
  const bool has_class =
      recipe.data.tokenizer == TokenizerKind::published && config->type_vocab_size > 0;
  if (has_class && !wanted.predicts_tokens()) set_classifier_body(*config);
}

/// Throws InputError if the task of `recipe` reads a file and `recipe` has other options of the
/// tokenizer than `source`, the run in `directory`, or if the tokenizer of `source` was not made
/// from a file.
void check_tokenizer_options(const std::filesystem::path& directory, const Run& source,
                             const Recipe& recipe) {
  if (!find_task(recipe.task).reads_file()) return;
  if (!find_task(source.recipe.task).reads_file()) {
    throw InputError(
        fmt::format("{}: the vocabulary of its task '{}' is fixed, so the task '{}', which reads a "
                    "file, cannot begin with the weights of this run",
                    directory.string(), source.recipe.task, recipe.task));
  }
  const auto differences = differences_of(source.recipe, recipe, is_tokenizer_key);
  if (differences.empty()) return;
  throw InputError(fmt::format("{}: the weights require the tokenizer of this run: {}",
                               directory.string(), fmt::join(differences, "; ")));
}

/// True if another value would change what the published weights compute. What comes after the
/// blocks is new in a classifier, and regularization is for training only.
bool is_fixed_by_weights(const RecipeField& field) {
  constexpr std::array<std::string_view, 9> kFree{
      "max_seq_len", "dropout",   "stochastic_depth", "gradient_checkpointing", "pooling",
      "pooler",      "normalize", "masked_lm",        "router_aux_loss_coef"};
  return is_model_key(field) && std::ranges::find(kFree, field.key) == kFree.end();
}

/// Throws InputError if `recipe` has other options of the model than the published model `source`.
void check_model_options(const SourceModel& source, const Recipe& recipe) {
  if (!source.is_published) return;
  const auto differences = differences_of(source.run.recipe, recipe, is_fixed_by_weights);
  if (differences.empty()) return;
  throw InputError(fmt::format("{}: the weights require the options of config.json: {}",
                               source.path.string(), fmt::join(differences, "; ")));
}

/// Copies the weights of `model` into the model of `setup`, which belongs to `recipe`; see
/// `TrainingRunOptions::init_from`.
InitialWeights copy_initial_weights(const SourceModel& model, const Recipe& recipe,
                                    const TrainingSetup& setup) {
  const auto& source = model.run;
  const bool same_kind = source.recipe.model.index() == recipe.model.index();
  const auto is_seq2seq = [](const ModelConfig& config) {
    return std::holds_alternative<Seq2SeqConfig>(config);
  };
  if (!same_kind && (is_seq2seq(source.recipe.model) || is_seq2seq(recipe.model))) {
    throw InputError(fmt::format("{}: found a {}, but the task '{}' requires a {}",
                                 model.path.string(), model_kind(source.recipe.model), recipe.task,
                                 model_kind(recipe.model)));
  }
  const auto& tokenizer = setup.task->tokenizer();
  if (tokenizer.files() != source.tokenizer->files()) {
    throw InputError(
        fmt::format("{}: the vocabulary of its task '{}' ({} tokens) differs from the vocabulary "
                    "of the task '{}' ({} tokens)",
                    model.path.string(), source.recipe.task, source.tokenizer->size(), recipe.task,
                    tokenizer.size()));
  }

  const auto classes = setup.task->classes();
  const auto found = weights_for(recipe.model, source, classes);
  const auto expected = state_dict(module_of(setup.model));
  const bool same_outputs = same_kind && std::ranges::is_permutation(classes, source.classes);
  const auto can_take = [&](const std::string& name) {
    return found.contains(name) && expected.contains(name) && (same_outputs || !is_output(name));
  };
  InitialWeights initial{
      .directory = model.path,
      .run_id = model.id,
      .checksum = model.checksum,
      .changed_options = differences_of(source.recipe, recipe, is_model_key),
      .warnings = model.warnings,
  };
  Tensors taken;
  std::vector<std::string> problems;
  const auto add_problem = [&](const std::string& name) {
    problems.push_back(fmt::format("{}: found {}, expected {}", name, shape_of(found, name),
                                   shape_of(expected, name)));
  };
  for (const auto& [name, tensor] : expected) {
    if (can_take(name) && found.at(name).sizes() == tensor.sizes()) {
      taken[name] = found.at(name);
    } else if (!can_take(name) && is_classifier_head(name)) {
      initial.keys.missing_keys.push_back(name);
    } else {
      add_problem(name);
    }
  }
  for (const auto& [name, tensor] : found) {
    if (!can_take(name) && is_classifier_head(name)) {
      initial.keys.unexpected_keys.push_back(name);
    } else if (!expected.contains(name)) {
      add_problem(name);
    }
  }
  if (!problems.empty()) {
    throw InputError(fmt::format(
        "{}: {} of its tensors do not fit the new model, such as {}; options that differ: {}",
        model.path.string(), problems.size(), problems.front(),
        initial.changed_options.empty()
            ? "none"
            : fmt::format("{}", fmt::join(initial.changed_options, "; "))));
  }
  initial.num_tensors = static_cast<int64_t>(taken.size());
  load_state_dict(module_of(setup.model), taken, {.strict = false});
  return initial;
}

TrainingSetup random_setup(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                           const TaskMaker& task_maker) {
  check_recipe(recipe);
  const auto device = resolve_device(recipe.training.device);
  auto task = task_maker(recipe, std::move(tokenizer));
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {recipe, device, std::move(task), std::move(model)};
}

/// Adds the adapters of the recipe, and unfreezes the tensors that are not those of the base.
void add_adapters(TrainingSetup& setup) {
  auto& module = module_of(setup.model);
  add_lora_of(setup.recipe, module);
  auto parameters = module.named_parameters();
  const auto& missing = setup.initial_weights->keys.missing_keys;
  for (const auto& adapter : lora_adapters(module)) {
    if (std::ranges::count(missing, adapter.layer_name + ".weight") == 0) continue;
    throw InputError(fmt::format(
        "lora_targets ({}): found {}, which is new and is trained in full, expected "
        "layers of {}",
        setup.recipe.lora.targets, adapter.layer_name, setup.initial_weights->directory.string()));
  }
  for (const auto& name : missing) {
    if (auto* parameter = parameters.find(name)) parameter->requires_grad_();
  }
}

}  // namespace

TrainingSetup make_training_setup(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                                  const TaskMaker& task_maker) {
  if (recipe.lora.rank > 0) {
    throw InputError(
        fmt::format("lora_rank ({}) requires a trained model, whose weights the adapters change: "
                    "pass its directory (--init-from)",
                    recipe.lora.rank));
  }
  return random_setup(recipe, std::move(tokenizer), task_maker);
}

Recipe fine_tuning_recipe(const Recipe& source, const std::string& task) {
  const auto& info = find_task(task);
  auto recipe = info.defaults;
  if (task == source.task) {
    recipe.text = source.text;
    recipe.data = source.data;
  } else if (info.reads_file()) {
    recipe.data.tokenizer = source.data.tokenizer;
    recipe.data.vocab_size = source.data.vocab_size;
    recipe.data.unknown = source.data.unknown;
  }
  if (recipe.model.index() == source.model.index()) {
    recipe.model = source.model;
    set_outputs(info.defaults.model, recipe);
  } else {
    recipe.stack() = source.stack();
    recipe.max_seq_len() = source.max_seq_len();
  }
  return recipe;
}

TrainingSetup make_training_setup(const Recipe& recipe, const SourceModel& source,
                                  const TaskMaker& task_maker) {
  check_tokenizer_options(source.path, source.run, recipe);
  check_model_options(source, recipe);
  auto setup = random_setup(recipe, source.run.tokenizer, task_maker);
  setup.initial_weights = copy_initial_weights(source, recipe, setup);
  if (recipe.lora.rank > 0) add_adapters(setup);
  return setup;
}

TrainingSetup make_training_setup(const Recipe& recipe, const std::filesystem::path& init_from,
                                  const TaskMaker& task_maker) {
  if (init_from.empty()) return make_training_setup(recipe, nullptr, task_maker);
  return make_training_setup(recipe, load_source(init_from), task_maker);
}

}  // namespace attend::train
