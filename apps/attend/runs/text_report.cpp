#include "runs/text_report.h"

#include "attend/io/utf8.h"
#include "attend/nn/eval_guard.h"
#include "attend/ops/attention_recorder.h"
#include "attend/train/answer.h"
#include "error_message.h"
#include "terminal/heat_color.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/functional/normalization.h>

#include <algorithm>
#include <cmath>

namespace attend::app {
namespace {

constexpr int64_t kNeighbors = 4;
constexpr int kBarWidth = 30;

/// Returns no weights if the task has no probe texts or the model has no layers.
std::vector<LastTokenAttention> last_token_attention(Model& any_model, const train::Task& task) {
  if (task.probe_texts().empty()) return {};
  auto& model = model_as<LanguageModel>(any_model, "the attention report");
  if (model->config.stack.num_layers == 0) return {};
  const EvalGuard eval(*model);
  const torch::NoGradGuard no_grad;
  const auto& tokenizer = task.tokenizer();
  const auto device = model->embedding->token->weight.device();
  std::vector<LastTokenAttention> attention;
  for (const auto& probe : task.probe_texts()) {
    const auto ids = tokenizer.encode(probe);
    AttentionRecorder recorder;
    const auto logits = model(torch::tensor(ids, torch::kLong).to(device));  // (T, V)
    const auto weights = recorder.weights().back().mean(0)[-1].cpu();        // (H, T, T) -> (T)
    attention.push_back(
        {.text = probe, .prediction = tokenizer.token(logits[-1].argmax().item<int64_t>())});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      attention.back().tokens.push_back(tokenizer.token(ids[i]));
      attention.back().weights.push_back(weights[static_cast<int64_t>(i)].item<double>());
    }
  }
  return attention;
}

/// Returns a line for each text, and for each token a line with its weight and a bar. The weight
/// has a color on a scale from 0 to the largest weight of the text, since those of many tokens are
/// small.
std::string attention_text(const std::vector<LastTokenAttention>& attention, bool colors) {
  std::string text;
  for (const auto& [probe, prediction, tokens, weights] : attention) {
    text += fmt::format("  {} -> {}\n", printable(probe), prediction);
    const auto largest = *std::ranges::max_element(weights);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto number = fmt::format(" {:.2f} ", weights[i]);
      const auto bar =
          std::string(static_cast<std::size_t>(std::lround(weights[i] * kBarWidth)), '#');
      text += fmt::format(
          "    {:<10}{}{}\n", tokens[i],
          colors ? on_heat_color(number, weights[i] / std::max(largest, 1e-9)) : number, bar);
    }
  }
  return text;
}

std::string sample_text(Model& model, const train::Task& task, int64_t seed) {
  std::string text;
  for (const auto& sample : train::make_samples(model, task, {.seed = seed})) {
    const auto& [input, output, expected, input_tokens, output_tokens] = sample;
    // A truncated text of bytes may begin or end inside of a character.
    if (expected.empty()) {
      text += without_control_codes(replace_invalid_utf8(input + output)) + "\n";
    } else {
      text += fmt::format("  {} -> {}  ({})\n", printable(replace_invalid_utf8(input)),
                          printable(output),
                          train::is_correct(sample, task.problem()).value_or(false)
                              ? "correct"
                              : fmt::format("expected {}", printable(expected)));
    }
  }
  return text.empty() ? "" : "Samples from the validation set:\n" + text;
}

}  // namespace

std::string TextReport::text(bool colors) const {
  std::vector<std::string> parts;
  if (!neighbors.empty()) parts.push_back(neighbors);
  if (!attention.empty()) {
    parts.push_back(
        "Attention weights of the last token (last layer, mean over heads). The vectors\n"
        "of the last layer contain what earlier layers have read: a large weight of a\n"
        "token such as '.' can stand for words before it.\n" +
        attention_text(attention, colors));
  }
  if (!samples.empty()) parts.push_back(samples);
  return fmt::format("{}", fmt::join(parts, "\n"));
}

std::string nearest_neighbors(Model& model, const train::Task& task) {
  if (task.probe_words().empty()) return {};
  const torch::NoGradGuard no_grad;
  const auto& tokenizer = task.tokenizer();
  auto& language_model = model_as<LanguageModel>(model, "the nearest-neighbor report");
  const auto embeddings =
      torch::nn::functional::normalize(language_model->embedding->token->weight,
                                       torch::nn::functional::NormalizeFuncOptions().dim(-1));
  std::string text;
  for (const auto& word : task.probe_words()) {
    const auto id = tokenizer.encode(word).at(0);
    auto similarity = embeddings.mv(embeddings[id]);  // (V)
    similarity[id] = -2.0;  // less than any cosine: excludes the word itself
    const auto [values, ids] = similarity.topk(kNeighbors);
    text += fmt::format("  {:<8}", printable(word));
    for (int64_t i = 0; i < kNeighbors; ++i) {
      text += fmt::format("  {} {:.2f}", tokenizer.token(ids[i].item<int64_t>()),
                          values[i].item<double>());
    }
    text += "\n";
  }
  return text;
}

TextReport make_text_report(Model& model, const train::Task& task,
                            const std::string& neighbors_before, int64_t seed) {
  TextReport report{.neighbors = nearest_neighbors(model, task),
                    .attention = last_token_attention(model, task),
                    .samples = sample_text(model, task, seed)};
  if (!report.neighbors.empty()) {
    const auto before = neighbors_before.empty()
                            ? ""
                            : fmt::format(" before training:\n{}after training", neighbors_before);
    report.neighbors = fmt::format("Nearest token embeddings (cosine similarity){}:\n{}", before,
                                   report.neighbors);
  }
  return report;
}

}  // namespace attend::app
