#include "train/source_model.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/nn/lora.h"
#include "attend/train/initial_model.h"
#include "models/classifier_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <variant>

namespace attend::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

thread_local int num_bases = 0;

struct BaseScope {
  BaseScope() { ++num_bases; }
  BaseScope(const BaseScope&) = delete;
  BaseScope& operator=(const BaseScope&) = delete;
  ~BaseScope() { --num_bases; }
};

/// Returns the prefix of the names of the stack's tensors.
std::string_view stack_prefix(const ModelConfig& config) {
  constexpr std::array<std::string_view, std::variant_size_v<ModelConfig>> kPrefixes{
      "decoder.", "encoder.", "transformer."};
  return kPrefixes.at(config.index());
}

}  // namespace

SourceModel load_source(const std::filesystem::path& path) {
  const InitialModel initial(path);
  std::string checksum;
  auto run = initial.load(&checksum);
  run.merge_adapters();
  return {.path = path,
          .id = initial.id(),
          .checksum = checksum,
          .run = std::move(run),
          .is_published = initial.is_published(),
          .warnings = initial.warnings()};
}

SourceModel load_base(const BaseModel& base) {
  const BaseScope scope;
  const auto refuse = [&](const std::string& problem) {
    throw InputError(fmt::format("base model {}: {}", printable(base.path), problem));
  };
  if (num_bases > kMaxBases) refuse("has too many base models itself");
  if (!RunDirectory::exists(base.path) && !is_pretrained(base.path)) {
    refuse(fmt::format(
        "found no run or published model, expected the one whose weights have the checksum {}: the "
        "weights of this run are changes of them",
        printable(base.checksum)));
  }
  auto source = load_source(base.path);
  if (source.checksum != base.checksum) {
    refuse(fmt::format("its weights have changed: checksum {}, expected {}", source.checksum,
                       printable(base.checksum)));
  }
  return source;
}

void add_lora_of(const Recipe& recipe, torch::nn::Module& module) {
  try {
    add_lora(module, recipe.lora.options());
  } catch (const c10::ValueError& error) {
    throw InputError(fmt::format("lora_targets: {}", error.what_without_backtrace()));
  }
}

Recipe merged_recipe(Recipe recipe) {
  const auto targets = recipe.lora.options().targets;
  if (recipe.lora.rank > 0 && std::ranges::count(targets, "head") > 0) {
    std::visit(
        [](auto& config) {
          if constexpr (requires { config.tie_embeddings; }) config.tie_embeddings = false;
        },
        recipe.model);
  }
  recipe.lora = {};
  return recipe;
}

std::map<std::string, torch::Tensor> weights_for(const ModelConfig& kind, const Run& source,
                                                 const std::vector<std::string>& classes) {
  const auto rows = rows_of_classes(classes, source.classes);
  const auto from = stack_prefix(source.recipe.model);
  Tensors tensors;
  for (const auto& [name, tensor] : state_dict(module_of(source.model))) {
    const bool is_stack = name.starts_with(from);
    tensors[is_stack ? std::string(stack_prefix(kind)) + name.substr(from.size()) : name] =
        is_output(name) ? with_rows(tensor, rows) : tensor;
  }
  return tensors;
}

void load_adapted(const Recipe& recipe, const std::vector<std::string>& classes, Model& model,
                  const Tensors& own, const SourceModel& base) {
  auto& module = module_of(model);
  add_lora_of(recipe, module);
  auto tensors = own;
  auto of_base = weights_for(recipe.model, base.run, classes);
  if (!std::holds_alternative<SequenceClassifier>(model)) {
    // The adapter of a tied head unties it: it begins with the weight of the embedding.
    const bool is_decoder = std::holds_alternative<LanguageModel>(model);
    const auto found =
        of_base.find(is_decoder ? "embedding.token.weight" : "target_embedding.token.weight");
    if (found != of_base.end()) of_base.emplace("head.weight", found->second);
  }
  for (const auto& [name, tensor] : state_dict(module)) {
    const auto found = of_base.find(name);
    if (!own.contains(name) && found != of_base.end()) tensors.emplace(name, found->second);
  }
  load_state_dict(module, tensors);
}

void load_some(ModuleRef module, Tensors tensors) {
  const auto all = state_dict(module);
  tensors.insert(all.begin(), all.end());  // does not replace
  load_state_dict(module, tensors);
}

}  // namespace attend::train
