#include "attend/train/training_setup.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/device.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "train/run_record.h"

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

/// Returns the prefix of the names of the stack's tensors.
std::string_view stack_prefix(const ModelConfig& config) {
  constexpr std::array<std::string_view, std::variant_size_v<ModelConfig>> kPrefixes{
      "decoder.", "encoder.", "transformer."};
  return kPrefixes.at(config.index());
}

/// Returns the weights of a model with the names that they have in a model of the kind `kind`.
Tensors weights_for(const ModelConfig& kind, const Run& source) {
  const auto from = stack_prefix(source.recipe.model);
  Tensors tensors;
  for (const auto& [name, tensor] : state_dict(module_of(source.model))) {
    const bool is_stack = name.starts_with(from);
    tensors[is_stack ? std::string(stack_prefix(kind)) + name.substr(from.size()) : name] = tensor;
  }
  return tensors;
}

bool is_output(const std::string& name) {
  return name.starts_with("head.");
}

/// True if a tensor comes after the stack, so that a model may lack it or have a new one.
bool is_head(const std::string& name) {
  return is_output(name) || name.starts_with("pooler.");
}

std::string shape_of(const Tensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? "none"
                                : fmt::format("shape ({})", fmt::join(found->second.sizes(), ", "));
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

/// Copies the weights of `source`, the loaded `run`, into the model of `setup`, which belongs
/// to `recipe`; see `TrainingRunOptions::init_from`.
InitialWeights copy_initial_weights(const RunDirectory& run, const Run& source,
                                    const Recipe& recipe, const TrainingSetup& setup) {
  const bool same_kind = source.recipe.model.index() == recipe.model.index();
  const auto is_seq2seq = [](const ModelConfig& config) {
    return std::holds_alternative<Seq2SeqConfig>(config);
  };
  if (!same_kind && (is_seq2seq(source.recipe.model) || is_seq2seq(recipe.model))) {
    throw InputError(fmt::format("{}: found a {}, but the task '{}' requires a {}",
                                 run.path().string(), model_kind(source.recipe.model), recipe.task,
                                 model_kind(recipe.model)));
  }
  const auto& tokenizer = setup.task->tokenizer();
  if (tokenizer.files() != source.tokenizer->files()) {
    throw InputError(
        fmt::format("{}: the vocabulary of its task '{}' ({} tokens) differs from the vocabulary "
                    "of the task '{}' ({} tokens)",
                    run.path().string(), source.recipe.task, source.tokenizer->size(), recipe.task,
                    tokenizer.size()));
  }

  const auto found = weights_for(recipe.model, source);
  const auto expected = state_dict(module_of(setup.model));
  const bool same_outputs = same_kind && source.classes == setup.task->classes();
  const auto can_take = [&](const std::string& name) {
    return found.contains(name) && expected.contains(name) && (same_outputs || !is_output(name));
  };
  InitialWeights initial{
      .directory = run.path(),
      .run_id = run.record().run_id,
      .changed_options = differences_of(source.recipe, recipe, is_model_key),
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
    } else if (!can_take(name) && is_head(name)) {
      initial.keys.missing_keys.push_back(name);
    } else {
      add_problem(name);
    }
  }
  for (const auto& [name, tensor] : found) {
    if (!can_take(name) && is_head(name)) {
      initial.keys.unexpected_keys.push_back(name);
    } else if (!expected.contains(name)) {
      add_problem(name);
    }
  }
  if (!problems.empty()) {
    throw InputError(fmt::format(
        "{}: {} of its tensors do not fit the new model, such as {}; options that differ: {}",
        run.path().string(), problems.size(), problems.front(),
        initial.changed_options.empty()
            ? "none"
            : fmt::format("{}", fmt::join(initial.changed_options, "; "))));
  }
  initial.num_tensors = static_cast<int64_t>(taken.size());
  load_state_dict(module_of(setup.model), taken, {.strict = false});
  return initial;
}

}  // namespace

TrainingSetup make_training_setup(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                                  const TaskMaker& task_maker) {
  check_recipe(recipe);
  const auto device = resolve_device(recipe.training.device);
  auto task = task_maker(recipe, std::move(tokenizer));
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {recipe, device, std::move(task), std::move(model)};
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
  } else {
    recipe.stack() = source.stack();
    recipe.max_seq_len() = source.max_seq_len();
  }
  return recipe;
}

TrainingSetup make_training_setup(const Recipe& recipe, const std::filesystem::path& init_from,
                                  const TaskMaker& task_maker) {
  if (init_from.empty()) return make_training_setup(recipe, nullptr, task_maker);
  const auto run = RunDirectory::open(init_from);
  const auto source = run.load();
  check_tokenizer_options(init_from, source, recipe);
  auto setup = make_training_setup(recipe, source.tokenizer, task_maker);
  setup.initial_weights = copy_initial_weights(run, source, recipe, setup);
  return setup;
}

}  // namespace attend::train
