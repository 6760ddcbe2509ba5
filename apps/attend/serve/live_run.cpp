#include "serve/live_run.h"

#include "attend/input_error.h"
#include "attend/train/run_directory.h"
#include "explain/explain_run.h"
#include "explain/explanation_json.h"
#include "json_text.h"
#include "report/attention_data.h"
#include "runs/run_overview.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <array>
#include <charconv>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMaxExplainedTokens = 256;
constexpr std::size_t kMaxExplanationBytes = 10'000'000;
constexpr std::uintmax_t kMaxNewMetrics = 1 << 20;  // bytes that are sent at once

constexpr std::chrono::seconds kRetryInterval(5);  // of the report of a damaged run

/// Files and folders that change when the data of a report does, except metrics.jsonl.
constexpr std::array kReportFiles{train::RunFiles::recipe,      train::RunFiles::data,
                                  train::RunFiles::model,       train::RunFiles::adapter,
                                  train::RunFiles::samples,     train::RunFiles::embeddings,
                                  train::RunFiles::checkpoints, train::RunFiles::summary};

/// Returns the text of a request of the form {"text": TEXT}.
std::string text_of(const std::string& request) {
  const auto json = parse_json(request);
  if (!json.is_object() || json.size() != 1 || !json.contains("text") ||
      !json.at("text").is_string())
    throw InputError("expected a JSON object with the key 'text', a string, and no other key");
  return json.at("text").get<std::string>();
}

void check_length(const train::Run& run, const std::string& text) {
  const auto count = run.tokenizer->encode(text).size();
  const auto max =
      std::min(kMaxExplainedTokens, static_cast<std::size_t>(run.recipe.max_seq_len()));
  if (count >= 1 && count <= max) return;
  throw InputError(fmt::format("the text has {} tokens, expected 1 to {}", count, max));
}

/// Returns the tokens of a text and of its answer.
SampleTokens tokens_of(const ExplainedText& text) {
  const auto ids = [](const torch::Tensor& tokens) {
    const auto* begin = tokens.const_data_ptr<int64_t>();
    return std::vector<int64_t>(begin, begin + tokens.numel());
  };
  const auto answer = text.is_seq2seq() ? ids(text.answer_tokens.slice(0, /*start=*/1))  // no <bos>
                                        : std::vector<int64_t>();
  return {ids(text.text), answer};
}

/// Returns the tokens or classes of the last step of an explanation, whose first matrix is the
/// prediction. Its last column contains the probabilities.
ordered_json prediction_of(const Explanation& explanation) {
  const auto& table = explanation.steps.back().matrices.front();
  const auto values = json_rows(table.values);
  auto prediction = ordered_json::array();
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    prediction.push_back({{"name", table.rows[i]}, {"probability", values[i].back()}});
  return prediction;
}

}  // namespace

std::string LiveRun::Version::text() const {
  return fmt::format("{}-{}", metrics_size, files);
}

LiveRun::Version LiveRun::Version::parse(const std::string& text) {
  Version version;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), version.metrics_size);
  if (error != std::errc() || end == text.data() + text.size() || *end != '-') return {};
  version.files = end + 1;
  return version;
}

LiveRun::Version LiveRun::version() const {
  Version version;
  std::error_code missing;
  const auto size = fs::file_size(directory_ / train::RunFiles::metrics, missing);
  version.metrics_size = missing ? 0 : size;
  std::string state;
  for (const auto* name : kReportFiles) {
    const auto path = directory_ / name;
    const auto time = fs::last_write_time(path, missing);
    if (!missing) state += fmt::format("{} {} ", name, time.time_since_epoch().count());
  }
  version.files = fmt::format("{:016x}", std::hash<std::string>()(state));
  return version;
}

std::shared_ptr<const ServedReport> LiveRun::report() {
  const std::lock_guard lock(mutex_);
  const auto version = this->version();  // first: what changes later is sent to the page again
  using Clock = std::chrono::steady_clock;
  if (version_ != version || (damage_ && Clock::now() >= next_try_)) {
    damage_ = nullptr;
    try {
      report_ = std::make_shared<const ServedReport>(served_report(directory_, version.text()));
    } catch (const InputError&) {
      damage_ = std::current_exception();
      next_try_ = Clock::now() + kRetryInterval;
    }
    version_ = version;
  }
  if (damage_) std::rethrow_exception(damage_);
  return report_;
}

train::Run& LiveRun::loaded_run() {
  const auto files = version().files;  // first: what changes later is loaded the next time
  if (!run_ || run_files_ != files) {
    run_.reset();
    const auto directory = train::RunDirectory::open(directory_);
    run_.emplace(directory.load(directory.available_weights().value_or(train::Weights::best)));
    run_files_ = files;
  }
  return *run_;
}

std::string LiveRun::explain(const std::string& request) {
  const auto text = text_of(request);
  const torch::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  auto& run = loaded_run();
  check_length(run, text);
  const ExplainedText explained(run, text, std::nullopt);
  const auto explanation = RunExplainer(explained, {}).explain();
  PackedExplanations packed(kMaxExplanationBytes);
  packed.add(explanation);
  std::vector<std::string> notes;
  auto attention = ordered_json::array();
  const auto sample = tokens_of(explained);
  for (const auto& matrices : attention_of(run, {sample}, notes))
    attention.push_back(to_json(matrices));
  auto steps = packed.json();
  if (const auto note = packed.note(); !note.empty()) notes.push_back(note);
  ordered_json answer{{"explanation", std::move(steps)},
                      {"attention", std::move(attention)},
                      {"prediction", prediction_of(explanation)},
                      {"notes", notes}};
  if (explained.is_seq2seq()) answer["answer"] = run.tokenizer->decode(sample.output);
  return json_text(answer);
}

std::string LiveRun::new_metrics(Version& shown) const {
  std::ifstream file(directory_ / train::RunFiles::metrics, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(shown.metrics_size));
  std::string text(kMaxNewMetrics, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.resize(text.rfind('\n') + 1);  // the last line may be incomplete
  shown.metrics_size += text.size();
  std::string events;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    const auto line = ordered_json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                          /*allow_exceptions=*/false);
    if (line.is_object()) events += fmt::format("event: metrics\ndata: {}\n\n", json_text(line));
    begin = end + 1;
  }
  return events;
}

std::string LiveRun::changes_since(Version& shown) {
  const auto now = version();
  if (now.files != shown.files || now.metrics_size < shown.metrics_size) {
    const auto current = report();
    shown = Version::parse(current->version);
    return fmt::format("event: data\ndata: {}\n\n", current->data);
  }
  return now.metrics_size > shown.metrics_size ? new_metrics(shown) : "";
}

}  // namespace attend::app
