#include "train/run_history.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/nn/eval_guard.h"
#include "attend/train/answer.h"
#include "attend/train/embedding_files.h"
#include "train/json_lines.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSnapshots = 50;
constexpr int64_t kNewTokens = 64;
constexpr std::string_view kSnapshotPrefix = "step-";
constexpr std::string_view kSnapshotSuffix = ".safetensors";

std::string snapshot_name(int64_t step) {
  return fmt::format("{}{:09}{}", kSnapshotPrefix, step, kSnapshotSuffix);
}

/// Returns the step of a snapshot's file name; -1 for any other name.
int64_t step_of_snapshot(const std::string& name) {
  int64_t step = -1;
  const auto* end = name.data() + name.size();
  if (name.starts_with(kSnapshotPrefix))
    std::from_chars(name.data() + kSnapshotPrefix.size(), end, step);
  return step >= 0 && name == snapshot_name(step) ? step : -1;
}

/// Returns the distance, in evaluations, of the snapshots that are kept of `count` evaluations.
std::size_t stride_of(std::size_t count) {
  std::size_t stride = 1;
  while ((count + stride - 1) / stride > kMaxSnapshots) stride *= 2;
  return stride;
}

/// True for a file that an interrupted `save_safetensors` of a snapshot leaves.
bool is_temporary_snapshot(const std::string& name) {
  const auto whole = name.substr(0, snapshot_name(0).size());
  return name.ends_with(".tmp") && step_of_snapshot(whole) >= 0;
}

/// Deletes temporary files, and the snapshots of the folder except those that are kept of `steps`.
void remove_other_snapshots(const fs::path& folder, const std::vector<int64_t>& steps) {
  const auto stride = stride_of(steps.size());
  std::vector<fs::path> removed;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    const auto step = step_of_snapshot(name);
    if (step < 0 && !is_temporary_snapshot(name)) continue;
    const auto found = std::ranges::find(steps, step);
    if (found == steps.end() || static_cast<std::size_t>(found - steps.begin()) % stride != 0)
      removed.push_back(entry.path());
  }
  for (const auto& path : removed) fs::remove(path);
}

nlohmann::ordered_json to_json(const Sample& sample, const Problem& problem) {
  const auto text = [](const std::string& bytes) { return replace_invalid_utf8(bytes); };
  nlohmann::ordered_json json{{"input", text(sample.input)}, {"output", text(sample.output)}};
  json["expected"] = nullptr;
  json["correct"] = nullptr;
  if (!sample.expected.empty()) json["expected"] = text(sample.expected);
  if (const auto correct = is_correct(sample, problem)) json["correct"] = *correct;
  json["input_tokens"] = sample.input_tokens;
  json["output_tokens"] = sample.output_tokens;
  return json;
}

}  // namespace

RunHistory::RunHistory(const RunDirectory& directory, Model& model, const Task& task, int64_t seed,
                       const TrainerState& state)
    : directory_(directory), model_(model), task_(task), seed_(seed) {
  // A pending evaluation is recorded when it is repeated.
  const auto last_step = state.step == 0 ? -1 : state.step - (state.evaluation_pending ? 1 : 0);
  const auto path = directory.file(RunFiles::samples);
  samples_ = std::make_shared<AppendFile>(open_json_lines(path, last_step));
  for (const auto& line : read_json_lines(path, /*is_finished=*/true))
    steps_.push_back(line.at("step").get<int64_t>());
  const auto folder = directory.file(RunFiles::embeddings);
  std::error_code error;
  if (!fs::exists(folder)) fs::create_directory(folder, error);
  if (error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  }
  if (!fs::is_directory(folder) || fs::is_symlink(folder))
    throw InputError(fmt::format("{}: expected a directory", folder.string()));
  remove_other_snapshots(folder, steps_);
}

void RunHistory::on_evaluation(int64_t step, const Evaluation& /*evaluation*/) {
  directory_.save_in_place("the history of the run", [&] { record(step); });
}

void RunHistory::record(int64_t step) {
  const EvalGuard eval(module_of(model_));
  const torch::NoGradGuard no_grad;
  auto samples = nlohmann::ordered_json::array();
  try {
    for (const auto& sample :
         make_samples(model_, task_, {.max_new_tokens = kNewTokens, .seed = seed_}))
      samples.push_back(to_json(sample, task_.problem()));
  } catch (const c10::Error&) {  // the logits are not finite
    samples.clear();
  }
  const nlohmann::ordered_json line{{"step", step}, {"samples", samples}};
  samples_->append(line.dump() + "\n");
  steps_.push_back(step);
  const auto folder = directory_.file(RunFiles::embeddings);
  if ((steps_.size() - 1) % stride_of(steps_.size()) == 0) {
    const auto table = token_embedding_weight(model_);
    const auto shown = table.slice(0, 0, kSnapshotTokens).detach().to(torch::kCPU, torch::kFloat);
    save_safetensors(folder / snapshot_name(step),
                     {.tensors = {{"embeddings", shown.contiguous()}}, .metadata = {}});
  }
  remove_other_snapshots(folder, steps_);
}

std::vector<EmbeddingSnapshot> embedding_snapshots(const fs::path& directory) {
  std::vector<EmbeddingSnapshot> snapshots;
  const auto folder = directory / RunFiles::embeddings;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const auto step = step_of_snapshot(entry.path().filename());
    if (step >= 0) snapshots.push_back({step, entry.path()});
  }
  std::ranges::sort(snapshots, {}, &EmbeddingSnapshot::step);
  return snapshots;
}

}  // namespace attend::train
