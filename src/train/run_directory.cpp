// Creates, resumes, loads and finishes runs.
#include "attend/train/run_directory.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/tokenizers.h"
#include "attend/io/utf8.h"
#include "attend/nn/lora.h"
#include "attend/nn/parameter_count.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/recipe_fields.h"
#include "io/files.h"
#include "nn/new_layers.h"
#include "ops/rng_state.h"
#include "train/checksum.h"
#include "train/run_files.h"
#include "train/run_record.h"
#include "train/source_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// Key of the checksum in the metadata of a run's best weights.
constexpr const char* kWeightsChecksum = "crc32c";

/// Throws InputError unless `path` contains a run.
void check_is_run(const fs::path& path) {
  if (RunDirectory::exists(path)) return;
  if (const auto runs = runs_clause(path); !runs.empty()) {
    throw InputError(fmt::format("{}: not a run directory, but {}; pass the directory of a run",
                                 path.string(), runs));
  }
  throw InputError(fmt::format("{}: not a run directory: it has no {}{}", path.string(),
                               RunFiles::recipe, RunDirectory::replaced_clause(path)));
}

/// Throws InputError if a file has another checksum. `advice`: what to do then.
void check_checksum(const fs::path& path, const std::string& expected, const std::string& advice) {
  const auto found = checksum_of_file(path);
  if (found == expected) return;
  throw InputError(fmt::format(
      "{}: changed, damaged, or of another run: checksum {}, expected {} as in {}; {}",
      path.string(), found, expected.empty() ? "none" : expected, RunFiles::data, advice));
}

/// Throws InputError if `num_tensors` are too few for a model. `load` calls it before it makes the
/// model, whose size a file of unknown origin may exaggerate.
void check_count(const StackConfig& stack, std::size_t num_tensors) {
  if (static_cast<int64_t>(num_tensors) >= stack.min_tensors()) return;
  throw InputError(fmt::format(
      "found {} tensors, expected at least {} for the num_layers ({}) and num_experts ({}) of the "
      "recipe",
      num_tensors, stack.min_tensors(), stack.num_layers, stack.num_experts));
}

/// Returns the value of `key` in the metadata of a safetensors file; empty if there is none.
std::string metadata_value(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

/// Weights of a run, and the path of the file or checkpoint that contains them.
struct FoundWeights {
  std::map<std::string, torch::Tensor> tensors;
  fs::path path;
};

FoundWeights read_weights(const RunDirectory& run, Weights weights) {
  const auto directory = run.path().string();
  if (weights == Weights::last) {
    if (auto found = run.checkpoints().load_latest()) {
      // An older checkpoint is not loaded instead: its weights are not the last ones.
      if (!found->damaged.empty()) {
        throw InputError(fmt::format("{}; delete this checkpoint to load the weights of {}",
                                     fmt::join(found->damaged, "; "), found->path.string()));
      }
      return {std::move(found->weights), found->path};
    }
    throw InputError(fmt::format("{}: no checkpoint has been saved yet{}", directory,
                                 RunDirectory::replaced_clause(run.path())));
  }
  const auto file = run.weights_file();
  if (!fs::exists(file) && !fs::exists(run.file(RunFiles::summary))) {
    throw InputError(
        fmt::format("{0}: no best weights: the run has no evaluation with a finite validation loss "
                    "yet; resume it (attend train --resume {0}), or load Weights::last (--weights "
                    "last){1}",
                    directory, RunDirectory::replaced_clause(run.path())));
  }
  auto content = load_safetensors(file);
  check_run_id(file, metadata_value(content.metadata, kRunId), run.record().run_id);
  const auto found = checksum_of(content.tensors);
  const auto expected = metadata_value(content.metadata, kWeightsChecksum);
  if (found != expected) {
    throw InputError(fmt::format("{}: damaged: checksum '{}', expected '{}'", file.string(), found,
                                 printable(expected)));
  }
  return {std::move(content.tensors), file};
}

void check_has_recipe(const RunRecord& record) {
  TORCH_CHECK_VALUE(record.texts.contains(RunFiles::recipe),
                    "RunRecord::texts: found no recipe.toml, expected its text");
}

}  // namespace

std::unique_ptr<Tokenizer> load_run_tokenizer(const fs::path& directory) {
  auto published = load_published_tokenizer(directory);
  return published ? std::move(published) : load_tokenizer(directory);
}

void Run::merge_adapters() {
  merge_and_remove_lora(module_of(model));
  recipe = merged_recipe(recipe);
}

std::unique_ptr<Task> Run::make_task() const {
  auto task = train::make_task(recipe, tokenizer);
  const auto data = recipe.text.empty() ? recipe.task : paths_text(recipe.text);
  if (task->tokenizer().files() != tokenizer->files()) {
    throw InputError(
        fmt::format("the vocabulary of '{}' ({} tokens) differs from the vocabulary of the run ({} "
                    "tokens)",
                    data, task->tokenizer().size(), tokenizer->size()));
  }
  const auto found_classes = task->classes();
  if (found_classes != classes) {
    throw InputError(
        fmt::format("{}: the classes differ from the classes of the run: found [{}], expected [{}]",
                    data, fmt::join(found_classes, ", "), fmt::join(classes, ", ")));
  }
  if (task->data_checksum() != data_checksum) {
    throw InputError(
        fmt::format("{}: changed since training (checksum {}, expected {}), so the split of "
                    "this data into training and validation data is unknown",
                    changed_data(recipe, data_checksum, task->data_checksum()),
                    task->data_checksum(), data_checksum));
  }
  return task;
}

RunDirectory::RunDirectory(fs::path path, std::unique_ptr<RunLock> lock)
    : path_(std::move(path)),
      record_(read_record(file(RunFiles::data))),
      checkpoints_(file(RunFiles::checkpoints), record_.run_id),
      lock_(std::move(lock)) {}

RunDirectory::~RunDirectory() = default;
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&&) noexcept = default;

RunDirectory RunDirectory::open(const fs::path& path) {
  check_is_run(path);
  return {path, nullptr};
}

RunDirectory RunDirectory::create(const fs::path& path, RunRecord record, bool overwrite) {
  check_has_recipe(record);
  auto lock = lock_new_run(path, overwrite);
  lock->check_in_place("the new run");
  remove_temporary_files(path);
  identify(record);
  replace_file(path / RunFiles::data, to_json(record));
  const auto recipe = record.texts.extract(RunFiles::recipe);
  for (const auto& [name, text] : record.texts) replace_file(path / name, text);
  // Last: a directory with a recipe is a run.
  replace_file(path / RunFiles::recipe, recipe.mapped());
  return {path, std::move(lock)};
}

RunDirectory RunDirectory::resume(const fs::path& path, const RunRecord& now) {
  check_has_recipe(now);
  check_is_run(path);
  // The directory is locked before the checks, so that no other process changes the files after
  // the checks.
  RunDirectory run(path, std::make_unique<RunLock>(path));
  run.check_files();
  if (fs::exists(run.weights_file())) run.weights_header();  // throws for another run
  auto differences = differences_of(run.record(), now);
  for (const auto& [name, text] : now.texts) {
    if (name != RunFiles::recipe && read_bytes(path / name) != text)
      differences.push_back(fmt::format("the tokenizer differs from {} of the run", name));
  }
  if (fs::exists(run.file(RunFiles::summary)) && run.checkpoints().latest().empty()) {
    throw InputError(fmt::format("{}: the run is finished and has no checkpoints to resume from",
                                 path.string()));
  }
  throw_if_different(path, differences);
  remove_temporary_files(path);
  return run;
}

bool RunDirectory::exists(const fs::path& path) {
  return fs::is_regular_file(path / RunFiles::recipe);
}

bool RunDirectory::owns(const fs::path& path, const fs::path& file) {
  const auto inside = fs::weakly_canonical(fs::absolute(file))
                          .lexically_relative(fs::weakly_canonical(fs::absolute(path)));
  // The first component of `inside` is ".." if `file` is outside of `path`.
  return is_file_of_run(inside.begin()->string());
}

Recipe RunDirectory::recipe() const {
  const auto path = file(RunFiles::recipe);
  if (is_custom()) {
    throw InputError(fmt::format(
        "{}: not trained from a recipe; use RunDirectory::load_weights with your module",
        path_.string()));
  }
  auto recipe = read_recipe(path, recipe_before_keys(record_.fixed));
  with_source(path.string(), [&] {
    check_recipe(recipe);
    const auto differences = differences_of(record_.fixed, fixed_values(recipe));
    if (differences.empty()) return;
    throw InputError(
        fmt::format("changed after the run was created: {}", fmt::join(differences, "; ")));
  });
  check_recipe_file();
  recipe.name = record_.recipe_name;
  return recipe;
}

bool RunDirectory::is_custom() const {
  const auto kind = record_.fixed.find("kind");
  return kind != record_.fixed.end() && kind->second == kCustomKind;
}

void RunDirectory::check_files() const {
  check_recipe_file();
  for (const auto& [name, expected] : record_.files) {
    if (name != RunFiles::recipe) check_checksum(path_ / name, expected, kRestore);
  }
}

void RunDirectory::check_same_values(const Recipe& recipe) const {
  throw_if_different(path_, differences_of(this->recipe(), recipe,
                                           [](const auto& field) { return !field.is_paths(); }));
}

void RunDirectory::check_texts(const Recipe& recipe) const {
  for (const auto& field : recipe_fields()) {
    if (!field.is_paths()) continue;
    const auto texts = std::get<std::vector<std::string>>(field_value(field, recipe));
    for (const auto& text : texts) {
      std::error_code error;
      if (fs::status(text, error).type() != fs::file_type::not_found) continue;
      throw InputError(
          fmt::format("{}: no such file; if it was moved, resume the run in {} with `{} = FILE`",
                      text, path_.string(), field.key));
    }
  }
}

void RunDirectory::check_recipe_file() const {
  const auto path = file(RunFiles::recipe);
  // A process may have been killed before or after it replaced the file.
  if (checksum_of_file(path) == record_.next_recipe) return;
  const auto found = record_.files.find(RunFiles::recipe);
  check_checksum(path, found == record_.files.end() ? "" : found->second,
                 fmt::format("{}, and change options with flags: attend train --resume {} "
                             "--max-steps 1000",
                             kRestore, path_.string()));
}

CustomConfig RunDirectory::custom_config() const {
  auto config = read_custom_config(file(RunFiles::recipe));
  check_recipe_file();
  return config;
}

void RunDirectory::save_recipe(const std::string& toml) {
  const auto path = file(RunFiles::recipe);
  check_recipe_file();
  const auto save = [&] { replace_file(file(RunFiles::data), to_json(record_)); };
  auto& checksum = record_.files[RunFiles::recipe];
  const auto next = checksum_text(crc32c(toml));
  checksum = checksum_of_file(path);
  if (next == checksum) return;
  record_.next_recipe = next;
  save();  // a process that is killed now leaves a run with one of the two recipes
  replace_file(path, toml);
  checksum = std::exchange(record_.next_recipe, "");
  save();
}

fs::path RunDirectory::weights_file() const {
  return file(record_.base ? RunFiles::adapter : RunFiles::model);
}

std::optional<Weights> RunDirectory::available_weights() const {
  if (fs::exists(weights_file())) return Weights::best;
  if (!checkpoints().latest().empty()) return Weights::last;
  return std::nullopt;
}

SafetensorsHeader RunDirectory::weights_header() const {
  const auto path = weights_file();
  auto header = read_safetensors_header(path);
  check_run_id(path, metadata_value(header.metadata, kRunId), record_.run_id);
  return header;
}

std::map<std::string, torch::Tensor> RunDirectory::state_dict(Weights weights) const {
  return read_weights(*this, weights).tensors;
}

void RunDirectory::load_weights(ModuleRef module, Weights weights) const {
  const auto found = read_weights(*this, weights);
  with_source(found.path.string(), [&] {
    if (record_.base)
      load_some(module, found.tensors);
    else
      load_state_dict(module, found.tensors);
  });
}

Run RunDirectory::load(Weights weights) const {
  auto recipe = this->recipe();
  check_files();
  summary();  // throws if the file is damaged or of another run
  std::shared_ptr<const Tokenizer> tokenizer = load_run_tokenizer(path_);
  // Initializing the weights must not change the state of LibTorch's CPU generator.
  const RngGuard rng(rng_state({torch::kCPU}));
  const auto found = read_weights(*this, weights);
  const auto in_weights = [&](const auto& use) { return with_source(found.path.string(), use); };
  std::optional<SourceModel> base;
  if (record_.base) base = with_source(path_.string(), [&] { return load_base(*record_.base); });
  in_weights([&] {
    check_count(recipe.stack(),
                base ? module_of(base->run.model).parameters().size() : found.tensors.size());
  });
  auto model = [&] {
    const UninitializedWeights guard(torch::kFloat);  // all weights are copied
    return make_model(recipe, tokenizer->size(), record_.classes.size());
  }();
  in_weights([&] {
    if (base)
      load_adapted(recipe, record_.classes, model, found.tensors, *base);
    else
      load_state_dict(module_of(model), found.tensors);
  });
  module_of(model).eval();
  return {.recipe = std::move(recipe),
          .tokenizer = std::move(tokenizer),
          .classes = record_.classes,
          .data_checksum = record_.data_checksum,
          .model = std::move(model)};
}

void RunDirectory::check_in_place(const std::string& lost) const {
  if (lock_ != nullptr) lock_->check_in_place(lost);
}

void RunDirectory::save_best(const std::map<std::string, torch::Tensor>& weights) {
  save_in_place("the best weights", [&] {
    save_safetensors(weights_file(), {.tensors = weights,
                                      .metadata = {{"format", "pt"},
                                                   {kRunId, record_.run_id},
                                                   {kWeightsChecksum, checksum_of(weights)}}});
  });
}

void RunDirectory::save(const Checkpoint& checkpoint) {
  save_in_place(fmt::format("the checkpoint of step {}", checkpoint.trainer_state.step),
                [&] { checkpoints_.save(checkpoint); });
}

void RunDirectory::save_in_place(const std::string& lost, const std::function<void()>& save) const {
  check_in_place(lost);
  try {
    save();
  } catch (const std::exception&) {
    check_in_place(lost);
    throw;
  }
}

std::optional<RunSummary> RunDirectory::summary() const {
  const auto path = file(RunFiles::summary);
  if (!fs::exists(path)) return std::nullopt;
  auto summary = read_summary(path);
  check_run_id(path, summary.run_id, record_.run_id);
  return summary;
}

bool RunDirectory::is_finished(const TrainerState& state, const TrainingConfig& config) const {
  // The summary of an earlier end stays while more steps are trained. There is none if the process
  // was killed between the last step and `finish`.
  const auto latest = summary();
  const bool has_summary = latest && latest->steps == state.step;
  if (state.evaluation_pending) return false;
  const bool out_of_patience =
      config.patience > 0 && state.evaluations_without_improvement >= config.patience;
  return (state.step == config.max_steps && (has_summary || !state.best)) ||
         (has_summary && out_of_patience);
}

void RunDirectory::finish_run(ConstModuleRef module, const TrainResult& result) const {
  const auto& state = result.state;
  const auto& best = state.best.value();
  const auto task = record_.fixed.find("task");
  RunSummary summary{.run_id = record_.run_id,
                     .task = task == record_.fixed.end() ? "" : task->second,
                     .parameters = parameter_count(module),
                     .steps = state.step,
                     .best_step = state.best_step,
                     .threads = state.threads,
                     .seconds = state.seconds(),
                     .tokens_per_second = result.tokens_per_second,
                     .train_loss = state.train_loss,
                     .val_loss = best.loss,
                     .val_accuracy = best.accuracy(),
                     .val_f1 = best.f1,
                     .skipped_steps = state.skipped_steps};
  if (const auto report = file(RunFiles::report_text); fs::exists(report))
    summary.files[RunFiles::report_text] = checksum_of_file(report);
  replace_file(file(RunFiles::summary), to_text_with_checksum(to_object(summary)));
  delete_replaced(path_);
}

}  // namespace attend::train
