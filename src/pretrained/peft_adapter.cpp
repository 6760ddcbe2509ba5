#include "attend/pretrained/peft_adapter.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/freezing.h"
#include "attend/nn/lora.h"
#include "attend/nn/tied_embeddings.h"
#include "io/dtypes.h"
#include "io/new_folder.h"
#include "models/classifier_head.h"
#include "pretrained/adapter_config.h"
#include "pretrained/adapter_weights.h"
#include "pretrained/config_differences.h"
#include "pretrained/publish.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace attend {
namespace {

using Path = std::filesystem::path;

constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kBaseModel = "base_model.model.";
constexpr const char* kA = ".lora_A.weight";
constexpr const char* kB = ".lora_B.weight";
constexpr const char* kBaseWeight = ".base_layer.weight";  // a copy of the weight of the base model
constexpr std::string_view kWeight = ".weight";

/// A linear layer of transformers: all or some rows of a linear layer of this library.
struct LinearModule {
  std::string name;          ///< in transformers, without prefix
  std::string layer;         ///< path in the model
  std::string adapter_name;  ///< as `add_lora` names it
  int64_t first_row;
  int64_t rows;
  WeightRow b;     ///< layout of the matrix B of the adapter
  bool is_conv1d;  ///< the weight is stored as (in, out)
};

/// Returns the name of a module or weight without the prefix of its architecture, if it has it.
std::string without_prefix(std::string name, const Architecture& architecture) {
  if (name.starts_with(architecture.prefix)) name.erase(0, architecture.prefix.size());
  return name;
}

/// A model, and the names that it has in transformers.
class AdaptedModel {
 public:
  AdaptedModel(const Model& model, const Architecture& architecture)
      : architecture_(architecture),
        rows_(architecture.weights(explicit_config(config_of(model)))) {
    for (const auto& item : module_of(model).named_modules()) {
      if (auto* linear = item.value()->as<torch::nn::LinearImpl>()) layers_[item.key()] = linear;
    }
    is_classifier_ = std::holds_alternative<SequenceClassifier>(model);
    for (const auto& row : rows_.all()) add_modules(row);
  }

  const std::vector<LinearModule>& modules() const { return modules_; }
  torch::nn::LinearImpl& layer(const std::string& path) const { return *layers_.at(path); }
  /// The weights of the pooler and the head of a classifier.
  const std::vector<WeightRow>& head() const { return head_; }
  const Architecture& architecture() const { return architecture_; }
  /// True if `all-linear` leaves out the module.
  bool is_output(const LinearModule& module) const { return module.layer == "head"; }

 private:
  void add_modules(const WeightRow& row) {
    if (is_classifier_ && is_classifier_head(row.name)) head_.push_back(row);
    if (!row.name.ends_with(kWeight)) return;
    const auto path = row.name.substr(0, row.name.size() - kWeight.size());
    if (layers_.count(path) == 0) return;
    constexpr std::array<const char*, 3> kProjections{"lora_query", "lora_key", "lora_value"};
    constexpr std::array<const char*, 2> kHalves{"lora_gate", "lora_up"};
    // B has the rows of a weight, also if the file of the weight is transposed.
    const bool is_transposed = row.layout.kind == WeightLayout::transposed;
    const auto layout = is_transposed ? WeightLayout{} : row.layout;
    int64_t first = 0;
    for (std::size_t i = 0; i < row.parts.size(); ++i) {
      const auto& part = row.parts[i];
      const auto rows = is_transposed ? part.shape.back() : part.shape.front();
      modules_.push_back({.name = part.name.substr(0, part.name.size() - kWeight.size()),
                          .layer = path,
                          .adapter_name = row.parts.size() == 3   ? kProjections.at(i)
                                          : row.parts.size() == 2 ? kHalves.at(i)
                                                                  : "lora",
                          .first_row = first,
                          .rows = rows,
                          .b = {part.name, {{part.name, {rows}}}, layout},
                          .is_conv1d = is_transposed});
      first += rows;
    }
  }

  const Architecture& architecture_;
  WeightRows rows_;
  std::map<std::string, torch::nn::LinearImpl*> layers_;
  bool is_classifier_ = false;
  std::vector<LinearModule> modules_;
  std::vector<WeightRow> head_;
};

const Architecture& architecture_of(const std::string& model_type) {
  const auto& all = architectures();
  const auto found = std::ranges::find(all, model_type, &Architecture::model_type);
  if (found != all.end()) return *found;
  throw InputError(
      fmt::format("found the model_type '{}', expected that of a published model", model_type));
}

/// The matrices of an adapter, and the options with which it is added.
struct Matrices {
  const LinearModule* module;
  LoraAdapterOptions options;
  torch::Tensor a = {};  // (r, K)
  torch::Tensor b = {};  // (N, r)
};

/// The tensors of an adapter, by their names without prefixes. Names each tensor that is not read.
class AdapterFile {
 public:
  AdapterFile(const Path& path, const AdaptedModel& model) : files_(path) {
    for (const auto& [name, entry] : files_.entries()) {
      if (!name.starts_with(kBaseModel)) {
        throw InputError(
            fmt::format("'{}': expected a name that begins with {}", name, kBaseModel));
      }
      const auto full = name.substr(kBaseModel.size());
      const auto [other, is_new] = names_.emplace(without_prefix(full, model.architecture()), name);
      if (!is_new)
        throw InputError(fmt::format("'{}' and '{}' are the same weight", other->second, name));
      unread_.insert(name);
    }
  }

  bool contains(const std::string& name) const { return names_.count(name) > 0; }
  /// Returns the name of a module with the prefix that its weight `name` has in the file.
  std::string module_of(const std::string& name, std::string_view suffix) const {
    const auto& full = names_.at(name);
    return full.substr(kBaseModel.size(), full.size() - kBaseModel.size() - suffix.size());
  }
  torch::Tensor read(const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = names_.find(name);
    if (found == names_.end())
      throw InputError(fmt::format("found no tensor '{}', expected one", name));
    const auto& full = found->second;
    const auto& entry = files_.entries().at(full);
    const auto* dtype = find_dtype(&Dtype::safetensors, entry.dtype);
    if (dtype == nullptr || !is_model_dtype(dtype->type)) {
      throw InputError(
          fmt::format("'{}': found dtype {}, expected F64, F32, F16 or BF16", full, entry.dtype));
    }
    if (entry.shape != shape) {
      throw InputError(fmt::format("'{}': found shape ({}), expected ({})", full,
                                   fmt::join(entry.shape, ", "), fmt::join(shape, ", ")));
    }
    unread_.erase(full);
    return files_.read(full).to(torch::kFloat);
  }
  const std::vector<int64_t>& shape(const std::string& name) const {
    return files_.entries().at(names_.at(name)).shape;
  }
  /// Throws InputError if a tensor was not read.
  void check_all_read(const AdaptedModel& model) const {
    const auto& architecture = model.architecture();
    for (const auto& name : unread_) {
      const auto is_part = [&](const auto& part) { return name.find(part) != std::string::npos; };
      if (std::ranges::any_of(architecture.ignored, is_part)) continue;
      const bool is_head = !architecture.head.empty() &&
                           name.substr(kBaseModel.size()).starts_with(architecture.head);
      if (is_head && model.head().empty()) {
        throw InputError(
            fmt::format("found '{}', the head of a classifier, which the model does not have: load "
                        "the adapter together with its base model",
                        name));
      }
      throw InputError(fmt::format("found '{}', expected {} and {} of a linear layer of the model",
                                   name, kA, kB));
    }
  }

 private:
  SafetensorsFiles files_;
  std::map<std::string, std::string> names_;  // in the file
  std::set<std::string> unread_;
};

/// Gives a model with tied embeddings a head, which an adapter may change, for the life of an
/// object; for longer if it then has one.
class UntiedEmbeddings {
 public:
  explicit UntiedEmbeddings(Model& model)
      : model_(dynamic_cast<TiedEmbeddings*>(&module_of(model))) {
    if (model_ != nullptr) model_->untie_embeddings();
  }
  ~UntiedEmbeddings() {
    if (model_ != nullptr) model_->retie_embeddings();
  }
  UntiedEmbeddings(const UntiedEmbeddings&) = delete;
  UntiedEmbeddings& operator=(const UntiedEmbeddings&) = delete;

 private:
  TiedEmbeddings* model_;
};

/// Throws InputError if the file has a weight of a module that is not that of the base model. PEFT
/// saves the weight of an adapted head, too.
void check_base_weight(AdapterFile& file, const AdaptedModel& model, const LinearModule& module) {
  const auto name = module.name + kBaseWeight;
  if (!model.is_output(module) || !file.contains(name)) return;
  const auto& expected = model.layer(module.layer).weight;
  const auto found = file.read(name, expected.sizes().vec());
  if (found.to(expected.options()).equal(expected)) return;
  throw InputError(fmt::format(
      "'{}': found other values than in the base model, expected the same: the weights of a base "
      "model cannot be part of an adapter",
      name));
}

/// Reads the adapter of a module; empty if the file has none.
std::optional<Matrices> read_matrices(AdapterFile& file, const AdapterConfig& config,
                                      const AdapterTargets& targets, const AdaptedModel& model,
                                      const LinearModule& module) {
  const auto a = module.name + kA;
  const auto b = module.name + kB;
  const bool is_output = model.is_output(module);
  if (!file.contains(a) && !file.contains(b)) {
    const bool is_expected = config.targets_are_complete &&
                             targets.contains(module.name, is_output) &&
                             !targets.saves(module.name);
    if (is_expected && config.target_pattern.empty())
      throw InputError(fmt::format("found no tensor '{}', expected one", a));
    return std::nullopt;
  }
  check_base_weight(file, model, module);
  const auto name = file.contains(a) ? file.module_of(a, kA) : file.module_of(b, kB);
  const bool has_targets = !config.target_modules.empty() || !config.target_pattern.empty();
  if (has_targets && !targets.contains(name, is_output)) {
    throw InputError(
        fmt::format("'{}' is adapted, but `target_modules` does not contain it", name));
  }
  const auto in = model.layer(module.layer).weight.size(1);
  const auto rank = targets.rank_of(name);
  Matrices matrices{.module = &module,
                    .options = {.in_features = in,
                                .first_row = module.first_row,
                                .rows = module.rows,
                                .rank = rank,
                                .alpha = targets.alpha_of(name),
                                .dropout = config.dropout,
                                .rslora = config.rslora}};
  matrices.a = file.read(a, {rank, in});
  matrices.b = module.b.join({file.read(b, {module.rows, rank})});
  return matrices;
}

/// A weight of the head of a classifier that an adapter replaces.
struct HeadWeight {
  std::string name;
  torch::Tensor value;
};

std::vector<HeadWeight> read_head(AdapterFile& file, const AdapterTargets& targets,
                                  const AdaptedModel& model) {
  std::vector<HeadWeight> head;
  for (const auto& row : model.head()) {
    std::vector<torch::Tensor> parts;
    for (const auto& [name, shape] : row.parts) {
      const auto module = name.substr(0, name.rfind('.'));
      if (!targets.saves(module) && !file.contains(name)) continue;
      parts.push_back(file.read(name, shape));
    }
    if (!parts.empty()) head.push_back({row.name, row.join(parts)});
  }
  return head;
}

/// Throws InputError if `modules_to_save` contains a module of the model that is not its head.
void check_saved_modules(const AdapterConfig& config, const AdapterTargets& targets,
                         const AdaptedModel& model) {
  for (const auto& module : model.modules()) {
    const bool is_head = !model.head().empty() && is_classifier_head(module.layer + ".");
    if (is_head || !targets.saves(module.name)) continue;
    throw InputError(fmt::format(
        "`modules_to_save`: found [{}], which contains the module '{}', expected the head of a "
        "classifier",
        fmt::join(config.modules_to_save, ", "), module.name));
  }
}

std::string task_type_of(const Model& model) {
  if (std::holds_alternative<LanguageModel>(model)) return "CAUSAL_LM";
  if (std::holds_alternative<Seq2Seq>(model)) return "SEQ_2_SEQ_LM";
  const auto& config = std::get<SequenceClassifier>(model)->config;
  if (config.num_classes == 0) return "FEATURE_EXTRACTION";
  return config.pooling == Pooling::none ? "TOKEN_CLS" : "SEQ_CLS";
}

/// Returns the one adapter that has the effect of all adapters of the rows of a module; empty if
/// there are none.
std::optional<Matrices> joined(const std::vector<NamedLoraAdapter>& adapters,
                               const LinearModule& module) {
  const auto end = module.first_row + module.rows;
  std::vector<torch::Tensor> a, b;
  Matrices result{.module = &module, .options = {}, .a = {}, .b = {}};
  for (const auto& [path, name, layer, adapter] : adapters) {
    const auto& options = adapter->options;
    const auto first = std::max(options.first_row, module.first_row);
    const auto last = std::min(options.first_row + options.rows, end);
    if (path != module.layer || first >= last) continue;
    const torch::NoGradGuard no_grad;
    auto rows = torch::zeros({module.rows, options.rank});
    rows.slice(0, first - module.first_row, last - module.first_row)
        .copy_(adapter->B.slice(0, first - options.first_row, last - options.first_row));
    if (a.empty()) {
      result.options = options;
    } else {
      rows *= options.scale() / result.options.scale();
    }
    a.push_back(adapter->A.detach().to(torch::kCPU));
    b.push_back(rows);
  }
  if (a.empty()) return std::nullopt;
  result.a = torch::cat(a);
  result.b = torch::cat(b, 1);
  // The factor of the product stays the same with the sum of the ranks.
  auto& options = result.options;
  const auto growth = static_cast<double>(result.a.size(0)) / static_cast<double>(options.rank);
  if (a.size() > 1) options.alpha *= options.rslora ? std::sqrt(growth) : growth;
  options.rank = result.a.size(0);
  return result;
}

/// Returns the end of a name after the number of its block, such as self_attn.q_proj.
std::string after_block(const std::string& name) {
  const auto last_digit = name.find_last_of("0123456789");
  const bool is_number =
      last_digit != name.npos && last_digit + 1 < name.size() && name[last_digit + 1] == '.';
  return is_number ? name.substr(last_digit + 2) : name;
}

/// Returns the shortest `target_modules` that contain exactly the adapted of all modules.
std::vector<std::string> targets_of(const std::set<std::string>& adapted,
                                    const std::set<std::string>& all) {
  std::set<std::string> targets;
  for (const auto& name : adapted) {
    const auto end = after_block(name);
    const bool is_exact = std::ranges::all_of(all, [&](const auto& other) {
      return adapted.count(other) > 0 || !other.ends_with("." + end);
    });
    targets.insert(is_exact ? end : name);
  }
  return {targets.begin(), targets.end()};
}

/// Returns a regular expression that matches a name.
std::string escaped(const std::string& name) {
  std::string pattern;
  for (const char each : name) pattern += each == '.' ? "\\." : std::string(1, each);
  return pattern;
}

}  // namespace

std::map<std::string, std::vector<int64_t>> shapes_in_adapter(const Path& folder,
                                                              const Architecture& architecture) {
  std::map<std::string, std::vector<int64_t>> shapes;
  const SafetensorsFiles files(file_in(folder, kWeightsFile));
  for (const auto& [name, entry] : files.entries()) {
    if (name.starts_with(kBaseModel))
      shapes.emplace(without_prefix(name.substr(kBaseModel.size()), architecture), entry.shape);
  }
  return shapes;
}

bool adapts(const std::map<std::string, std::vector<int64_t>>& shapes, const std::string& weight) {
  return shapes.contains(weight.substr(0, weight.size() - kWeight.size()) + kA);
}

bool is_peft_adapter(const Path& folder) {
  return std::filesystem::is_regular_file(folder / kAdapterConfigFile) &&
         !std::filesystem::is_regular_file(folder / "config.json");
}

void load_peft_adapter(Pretrained& pretrained, const Path& folder) {
  if (!lora_adapters(module_of(pretrained.model)).empty()) {
    throw InputError(fmt::format(
        "{}: the model has low-rank adapters, expected none: merge and remove them first",
        folder.string()));
  }
  const auto config_path = file_in(folder, kAdapterConfigFile);
  const auto config = with_json_file(config_path, read_adapter_config);
  const auto& architecture = architecture_of(pretrained.model_type);
  const UntiedEmbeddings untied(pretrained.model);
  const AdaptedModel model(pretrained.model, architecture);
  const auto targets = with_source(config_path.string(), [&] { return AdapterTargets(config); });
  with_source(config_path.string(), [&] { check_saved_modules(config, targets, model); });

  const auto path = file_in(folder, kWeightsFile);
  std::vector<Matrices> all;
  std::vector<HeadWeight> head;
  with_source(path.string(), [&] {
    AdapterFile file(path, model);
    for (const auto& module : model.modules()) {
      if (auto matrices = read_matrices(file, config, targets, model, module))
        all.push_back(*std::move(matrices));
    }
    head = read_head(file, targets, model);
    file.check_all_read(model);
  });
  freeze(module_of(pretrained.model));
  const torch::NoGradGuard no_grad;
  for (const auto& [module, options, a, b] : all) {
    auto adapter = add_lora_adapter(model.layer(module->layer), module->adapter_name, options);
    adapter->A.copy_(a);
    adapter->B.copy_(b);
    adapter->eval();
  }
  auto state = state_dict(module_of(pretrained.model));
  for (const auto& [name, value] : head) state.at(name).copy_(value).requires_grad_();
}

void save_peft_adapter(const Pretrained& pretrained, const Path& folder,
                       const SavePeftAdapterOptions& options) {
  const auto adapters = lora_adapters(module_of(pretrained.model));
  if (adapters.empty()) throw InputError("the model has no low-rank adapters, expected some");
  if (const auto* encoder = std::get_if<SequenceClassifier>(&pretrained.model);
      encoder != nullptr && (*encoder)->config.masked_lm) {
    throw InputError(
        "found the adapters of a masked language model, which PEFT does not load with its head; "
        "merge them instead (--merge --format hf)");
  }
  const auto published = publish(pretrained, {});
  const AdaptedModel model(pretrained.model, *published.architecture);
  AdapterConfig config{.base = options.base, .task_type = task_type_of(pretrained.model)};
  std::map<std::string, torch::Tensor> tensors;
  std::set<std::string> adapted, all, adapted_layers;
  const auto key = [&](const std::string& name) {
    return std::string(kBaseModel) + name_in_class(published, name);
  };
  for (const auto& module : model.modules()) {
    const auto name = name_in_class(published, module.name);
    all.insert(name);
    const auto matrices = joined(adapters, module);
    if (!matrices) continue;
    if (!model.head().empty() && module.layer == "head") {
      throw InputError(
          "found an adapter of the head, expected none: PEFT saves the head as a whole");
    }
    adapted_layers.insert(module.layer);
    const auto& found = matrices->options;
    if (adapted.empty()) {
      config.rank = found.rank;
      config.alpha = found.alpha;
      config.dropout = found.dropout;
      config.rslora = found.rslora;
    }
    if (found.rslora != config.rslora) {
      throw InputError(
          fmt::format("'{}': found an adapter {} rslora, expected that all adapters are alike",
                      module.layer, found.rslora ? "with" : "without"));
    }
    if (found.rank != config.rank) config.rank_pattern[escaped(name)] = found.rank;
    if (found.alpha != config.alpha) config.alpha_pattern[escaped(name)] = found.alpha;
    config.fan_in_fan_out |= module.is_conv1d;
    adapted.insert(name);
    tensors[key(module.name) + kA] = matrices->a.contiguous();
    tensors[key(module.name) + kB] = module.b.split(matrices->b).front().contiguous();
  }
  config.target_modules = targets_of(adapted, all);
  const auto state = state_dict(module_of(pretrained.model));
  const auto class_rows = rows_of_classes(options.classes, pretrained.classes);
  for (const auto& row : model.head()) {
    if (adapted_layers.count(row.name.substr(0, row.name.rfind('.'))) > 0) continue;
    const auto value = state.at(row.name).detach().to(torch::kCPU);
    const auto parts = row.split(is_output(row.name) ? with_rows(value, class_rows) : value);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& name = row.parts[i].name;
      tensors[key(name)] = parts[i].contiguous();
      // PEFT saves the whole head, which has two layers in a RoBERTa.
      const auto& head = published.architecture->head;
      const auto module = name.starts_with(head) ? head.substr(0, head.size() - 1)
                                                 : name.substr(0, name.rfind('.'));
      if (std::ranges::count(config.modules_to_save, module) == 0)
        config.modules_to_save.push_back(module);
    }
  }
  check_is_new(folder);
  NewFolder target(folder);
  replace_file(target.path() / kAdapterConfigFile, write_adapter_config(config).dump(2) + "\n");
  save_safetensors(target.path() / kWeightsFile,
                   {.tensors = tensors, .metadata = {{"format", "pt"}}});
  target.finish();
}

}  // namespace attend
