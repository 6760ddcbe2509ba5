#include "report/attention_data.h"

#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/ops/attention_recorder.h"
#include "attend/train/answer.h"
#include "attend/train/example_task.h"
#include "report/encoding.h"

#include <fmt/format.h>
#include <torch/nn/functional/padding.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <variant>

namespace attend::app {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kMaxAttentionRows = 128;          // more tokens are grouped to blocks
constexpr int64_t kMaxTokens = 1024;                // more tokens are left out
constexpr int64_t kMaxRecorded = int64_t{1} << 26;  // weights of a forward pass: 256 MiB
constexpr int64_t kMaxWeights = int64_t{1} << 20;   // weights of the report
constexpr int64_t kMaxLargest = 1000;               // largest weights of one matrix
constexpr int64_t kMaxLargestOfHead = 8;
constexpr int64_t kMaxPredictions = 5;  // most likely tokens at the place of a generated token

/// Weights as the recorder returns them, with what the rows and columns are.
struct Recorded {
  const char* title;
  Ids rows;
  Ids columns;
  std::vector<torch::Tensor> layers;  // (H, T, S) each
  bool causal = false;
  int64_t generated_from = -1;
  torch::Tensor logits = {};  // (T, V) of the rows; of one part of a sample with generated tokens
};

/// Runs a model on the tokens of a sample.
struct Record {
  const train::Run& run;
  SampleTokens sample;
  std::vector<std::string>& notes;

  /// Returns at most as many tokens as the model and the report accept.
  Ids cut(Ids ids, int64_t num_matrices, train::TruncationSide side) const {
    const auto fitting = static_cast<int64_t>(
        std::sqrt(static_cast<double>(kMaxRecorded) / static_cast<double>(num_matrices)));
    const auto limit = std::min(std::max<int64_t>(fitting, 1), kMaxTokens);
    const auto seen = std::min(static_cast<int64_t>(ids.size()), run.recipe.max_seq_len());
    if (seen > limit)
      notes.push_back(fmt::format("Attention weights are those of {} of {} tokens.", limit, seen));
    return train::truncated(std::move(ids), std::min(limit, seen), side);
  }

  int64_t num_matrices() const {
    return std::max<int64_t>(run.recipe.stack().num_layers * run.recipe.stack().num_heads, 1);
  }

  static torch::Tensor tensor(const Ids& ids) { return torch::tensor(ids, torch::kLong); }

  std::vector<Recorded> operator()(LanguageModel& model) const {
    auto joined = sample.input;
    joined.insert(joined.end(), sample.output.begin(), sample.output.end());
    // As in generation, the oldest tokens are dropped.
    const auto ids = cut(joined, num_matrices(), train::TruncationSide::left);
    const auto dropped = static_cast<int64_t>(joined.size() - ids.size());
    const auto prompt_size = static_cast<int64_t>(sample.input.size());
    const auto generated_from =
        sample.output.empty() ? -1 : std::max<int64_t>(prompt_size - dropped, 0);
    const AttentionRecorder recorder;
    const auto logits = model(tensor(ids));
    return {{"self-attention", ids, ids, recorder.weights(), true, generated_from, logits}};
  }
  std::vector<Recorded> operator()(SequenceClassifier& model) const {
    const auto ids = cut(sample.input, num_matrices(), run.recipe.data.truncate);
    const AttentionRecorder recorder;
    model(tensor(ids));
    return {{"self-attention", ids, ids, recorder.weights()}};
  }
  std::vector<Recorded> operator()(Seq2Seq& model) const {
    const auto num_decoder_layers =
        static_cast<int64_t>(model->transformer->decoder->blocks->size());
    const auto all = num_matrices() + 2 * num_decoder_layers * run.recipe.stack().num_heads;
    const auto source = cut(sample.input, all, train::TruncationSide::right);
    Ids target{train::answer_tokens(*run.tokenizer).bos_token};
    target.insert(target.end(), sample.output.begin(), sample.output.end());
    target = cut(target, all, train::TruncationSide::right);
    const AttentionRecorder recorder;
    const auto logits = model(tensor(source), tensor(target));
    const auto& weights = recorder.weights();
    const auto num_encoder_layers = run.recipe.stack().num_layers;
    Recorded encoder{"encoder self-attention", source, source, {}};
    Recorded decoder{"decoder self-attention", target, target, {}, true, 1, logits};
    Recorded cross{"cross-attention", target, source, {}, false, 1};
    // A decoder block calls its self-attention, then its cross-attention.
    for (int64_t i = 0; i < static_cast<int64_t>(weights.size()); ++i) {
      auto& part = i < num_encoder_layers              ? encoder
                   : (i - num_encoder_layers) % 2 == 0 ? decoder
                                                       : cross;
      part.layers.push_back(weights[static_cast<std::size_t>(i)]);
    }
    if (target.size() == 1) decoder.generated_from = cross.generated_from = -1;
    return {encoder, decoder, cross};
  }
};

int64_t num_blocks(int64_t tokens, int64_t block) {
  return (tokens + block - 1) / block;
}

/// Returns a label for each block of `block` tokens: the labels of the tokens, joined.
std::vector<std::string> block_labels(const Ids& ids, int64_t block, const Tokenizer& tokenizer) {
  std::vector<std::string> labels(
      static_cast<std::size_t>(num_blocks(static_cast<int64_t>(ids.size()), block)));
  for (std::size_t i = 0; i < ids.size(); ++i)
    labels[i / static_cast<std::size_t>(block)] += tokenizer.token(ids[i]);
  for (auto& label : labels) label = shortened(label, kMaxLabel);
  return labels;
}

/// Groups the rows and columns of `weights` (L, H, T, S) to blocks. An element of the result is the
/// mean, over the rows of a block, of the sum over the columns of a block.
torch::Tensor block_sums(const torch::Tensor& weights, int64_t block) {
  const auto rows = weights.size(2);
  const auto padding = [&](int64_t size) { return num_blocks(size, block) * block - size; };
  const auto padded = torch::nn::functional::pad(
      weights,
      torch::nn::functional::PadFuncOptions({0, padding(weights.size(3)), 0, padding(rows)}));
  const auto sums = padded.unflatten(2, {-1, block}).unflatten(4, {-1, block}).sum({3, 5});
  const auto count = torch::full({num_blocks(rows, block)}, block, torch::kFloat);  // rows of each
  count[-1] = block - padding(rows);
  return sums / count.unsqueeze(-1);
}

/// Returns the largest weights of each head, as [layer, head, row, column, weight].
std::vector<nlohmann::ordered_json> largest_weights(const torch::Tensor& weights) {
  const auto num_columns = weights.size(3);
  const auto flat = weights.flatten(0, 1).flatten(1);  // (L * H, T * S)
  const auto num_heads = weights.size(1);
  const auto count = std::clamp<int64_t>(kMaxLargest / flat.size(0), 1, kMaxLargestOfHead);
  const auto [values, indices] = flat.topk(std::min(count, flat.size(1)));
  std::vector<nlohmann::ordered_json> largest;
  for (int64_t i = 0; i < values.size(0); ++i) {
    for (int64_t j = 0; j < values.size(1); ++j) {
      const auto index = indices[i][j].item<int64_t>();
      largest.push_back({i / num_heads, i % num_heads, index / num_columns, index % num_columns,
                         rounded(values[i][j].item<double>())});
    }
  }
  return largest;
}

/// Returns, for each generated token except a first row, its probability and the most likely tokens
/// at its place, from the logits of the row before.
std::vector<nlohmann::ordered_json> predictions_of(const Recorded& part,
                                                   const Tokenizer& tokenizer) {
  std::vector<nlohmann::ordered_json> predictions;
  for (auto row = std::max<int64_t>(part.generated_from, 1);
       row < static_cast<int64_t>(part.rows.size()); ++row) {
    const auto probabilities = part.logits[row - 1].to(torch::kFloat).softmax(-1);  // (V)
    const auto [values, tokens] =
        probabilities.topk(std::min(kMaxPredictions, probabilities.size(0)));
    auto top = nlohmann::ordered_json::array();
    for (int64_t i = 0; i < values.size(0); ++i) {
      top.push_back({shortened(tokenizer.token(tokens[i].item<int64_t>()), kMaxLabel),
                     rounded(values[i].item<double>())});
    }
    const auto probability = probabilities[part.rows[static_cast<std::size_t>(row)]].item<double>();
    predictions.push_back({{"probability", rounded(probability)}, {"top", std::move(top)}});
  }
  return predictions;
}

/// Returns the number of tokens of a block with which the weights of `parts` have at most
/// `max_rows` rows and columns, and `max_weights` elements in total; at least 1.
int64_t block_of(const std::vector<Recorded>& parts, int64_t max_weights) {
  const auto fits = [&](int64_t block) {
    int64_t total = 0;
    for (const auto& part : parts) {
      const auto rows = num_blocks(static_cast<int64_t>(part.rows.size()), block);
      const auto columns = num_blocks(static_cast<int64_t>(part.columns.size()), block);
      if (rows > kMaxAttentionRows || columns > kMaxAttentionRows) return false;
      total +=
          static_cast<int64_t>(part.layers.size()) * part.layers.front().size(0) * rows * columns;
    }
    return total <= max_weights;
  };
  int64_t block = 1;
  while (!fits(block) && block < kMaxTokens) block *= 2;
  return block;
}

}  // namespace

std::vector<AttentionMatrices> attention_of(train::Run& run,
                                            const std::vector<SampleTokens>& samples,
                                            std::vector<std::string>& notes) {
  const torch::NoGradGuard no_grad;
  std::vector<AttentionMatrices> all;
  int64_t left = kMaxWeights;
  std::size_t shown = 0;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    if (samples[sample].input.empty() && samples[sample].output.empty()) continue;
    std::vector<Recorded> parts;
    try {
      parts = std::visit(Record{run, samples[sample], notes}, run.model);
    } catch (const InputError& error) {
      notes.push_back(
          fmt::format("Sample {} has no attention weights: {}", sample + 1, error.what()));
      continue;
    }
    std::erase_if(parts, [](const Recorded& part) {
      return part.layers.empty() || part.rows.empty() || part.columns.empty();
    });
    if (parts.empty()) continue;
    const auto block = block_of(parts, all.empty() ? kMaxWeights : INT64_MAX);
    std::vector<AttentionMatrices> matrices;
    int64_t size = 0;
    for (const auto& part : parts) {
      const auto weights = torch::stack(part.layers).to(torch::kFloat);  // (L, H, T, S)
      AttentionMatrices each{part.title, sample, block_labels(part.rows, block, *run.tokenizer),
                             block_labels(part.columns, block, *run.tokenizer)};
      each.weights = (block_sums(weights, block) * 255).round().clamp(0, 255).to(torch::kByte);
      each.causal = part.causal;
      each.generated_from = part.generated_from < 0 ? -1 : part.generated_from / block;
      each.block = block;
      if (block > 1) each.largest = largest_weights(weights);
      if (block == 1 && part.generated_from >= 0 && part.logits.defined())
        each.predictions = predictions_of(part, *run.tokenizer);
      size += each.weights.numel();
      matrices.push_back(std::move(each));
    }
    if (size > left) {
      notes.push_back(
          fmt::format("Attention weights are shown for {} of {} samples.", shown, samples.size()));
      break;
    }
    left -= size;
    ++shown;
    if (block > 1) {
      notes.push_back(fmt::format(
          "Attention weights of sample {} are shown for blocks of {} tokens.", sample + 1, block));
    }
    all.insert(all.end(), std::make_move_iterator(matrices.begin()),
               std::make_move_iterator(matrices.end()));
  }
  return all;
}

nlohmann::ordered_json to_json(const AttentionMatrices& matrices) {
  const auto bytes = matrices.weights.contiguous();
  nlohmann::ordered_json json{
      {"title", matrices.title},
      {"sample", matrices.sample},
      {"rows", matrices.rows},
      {"columns", matrices.columns},
      {"num_layers", bytes.size(0)},
      {"num_heads", bytes.size(1)},
      {"causal", matrices.causal},
      {"generated_from", nullptr},
      {"weights", to_base64({static_cast<const char*>(bytes.const_data_ptr()),
                             static_cast<std::size_t>(bytes.numel())})},
      {"block", matrices.block}};
  if (matrices.generated_from >= 0) json["generated_from"] = matrices.generated_from;
  if (matrices.block > 1) json["largest"] = matrices.largest;
  if (!matrices.predictions.empty()) json["predictions"] = matrices.predictions;
  return json;
}

}  // namespace attend::app
