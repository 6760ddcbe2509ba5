#include "explain/explained_text.h"

#include "attend/input_error.h"
#include "attend/nn/lora.h"
#include "attend/ops/attention_recorder.h"
#include "attend/train/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace attend::app {
namespace {

/// Returns a different label for each token: "the", or "the@3" if "the" occurs more than once.
std::vector<std::string> labels_of(const std::vector<int64_t>& ids, const Tokenizer& tokenizer) {
  std::map<std::string, int> counts;
  std::vector<std::string> labels;
  for (const auto id : ids) {
    auto label = tokenizer.token(id);
    if (label.find_first_not_of(' ') == label.npos) label = fmt::format("'{}'", label);
    ++counts[label];
    labels.push_back(std::move(label));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (counts[labels[i]] > 1) labels[i] += fmt::format("@{}", i + 1);
  }
  return labels;
}

void check_count(const char* flag, const std::vector<int64_t>& ids, std::size_t min,
                 int64_t max_seq_len) {
  if (ids.size() >= min && static_cast<int64_t>(ids.size()) <= max_seq_len) return;
  throw InputError(fmt::format("{}: expected {} to {} tokens (max_seq_len), found {}", flag, min,
                               max_seq_len, ids.size()));
}

/// Returns the tokens that the decoder of a Seq2Seq reads: the begin token and the answer. The
/// decoder does not read the last token of an answer of max_seq_len tokens.
std::vector<int64_t> answer_ids(const train::Run& run, const std::vector<int64_t>& text,
                                const std::optional<std::string>& answer) {
  const auto max_seq_len = run.recipe.max_seq_len();
  const auto special = train::answer_tokens(*run.tokenizer);
  const GenerationOptions greedy{.max_new_tokens = max_seq_len, .sampling = {.temperature = 0.0}};
  auto ids = answer ? run.tokenizer->encode(*answer)
                    : generate(std::get<Seq2Seq>(run.model), text, special, greedy).tokens;
  std::erase(ids, special.eos_token);
  check_count("--answer", ids, 0, max_seq_len);
  ids.insert(ids.begin(), special.bos_token);
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(max_seq_len)));
  return ids;
}

/// Sets the weights of heads in the output projections to zero, as long as it exists.
class RemovedHeads {
 public:
  explicit RemovedHeads(const ExplainedText& text) {
    for (const auto& [layer, head] : text.no_heads) {
      auto& block = *text.blocks->ptr(static_cast<std::size_t>(layer));
      auto* decoder = block.as<DecoderBlock>();
      const auto& attention =
          decoder != nullptr ? decoder->cross_attention : block.as<TransformerBlock>()->attention;
      const auto& weight = attention->out->weight;  // (E, H * D)
      const auto width = weight.size(1) / text.num_heads();
      auto part = weight.slice(1, head * width, (head + 1) * width);
      parts_.emplace_back(part, part.clone());
      part.zero_();
    }
  }
  ~RemovedHeads() {
    // In reverse order, because a head may be removed twice.
    for (auto i = parts_.rbegin(); i != parts_.rend(); ++i) i->first.copy_(i->second);
  }
  RemovedHeads(const RemovedHeads&) = delete;
  RemovedHeads& operator=(const RemovedHeads&) = delete;

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> parts_;  // of weights, and as they were
};

}  // namespace

ExplainedText::ExplainedText(train::Run& run, const std::string& text,
                             const std::optional<std::string>& answer)
    : run(run) {
  if (const auto type = run.recipe.data.problem_type;
      type != train::ProblemType::single_label_classification) {
    throw InputError(fmt::format(
        "problem_type is {}, expected single_label_classification: only the prediction of a class "
        "can be explained",
        to_string(type)));
  }
  if (auto* language_model = std::get_if<LanguageModel>(&run.model)) {
    embedding = (*language_model)->embedding;
    blocks = (*language_model)->decoder->blocks;
    norm = (*language_model)->decoder->norm;
  } else if (auto* classifier = std::get_if<SequenceClassifier>(&run.model)) {
    embedding = (*classifier)->embedding;
    blocks = (*classifier)->encoder->blocks;
    norm = (*classifier)->encoder->norm;
  } else {
    const auto& seq2seq = std::get<Seq2Seq>(run.model);
    embedding = seq2seq->target_embedding;
    blocks = seq2seq->transformer->decoder->blocks;
    norm = seq2seq->transformer->decoder->norm;
  }
  merge_lora(module_of(run.model));  // explanations read the weights of the layers
  const auto ids = run.tokenizer->encode(text);
  check_count("--text", ids, 1, run.recipe.max_seq_len());
  if (num_layers() == 0)
    throw InputError("the model has no attention: num_layers is 0, expected at least 1");
  this->text = torch::tensor(ids, torch::kLong);
  text_labels = labels = labels_of(ids, *run.tokenizer);
  if (is_seq2seq()) {
    const auto answer_tokens_of_model = answer_ids(run, ids, answer);
    answer_tokens = torch::tensor(answer_tokens_of_model, torch::kLong);
    labels = labels_of(answer_tokens_of_model, *run.tokenizer);
  } else if (answer) {
    throw InputError(fmt::format("--answer has no effect: only a seq2seq has an answer, found a {}",
                                 model_kind(run.recipe.model)));
  }
}

ForwardPass ExplainedText::forward(int64_t row) const {
  const RemovedHeads removed(*this);
  ForwardPass pass;
  auto* seq2seq = std::get_if<Seq2Seq>(&run.model);
  if (seq2seq != nullptr) pass.memory = (*seq2seq)->encode(text, text_mask);
  SharedTensors shared;
  ForwardState state{.shared = &shared,
                     .first_values = &pass.first_values,
                     .first_relative_bias = &pass.first_relative_bias};
  auto module = embedding;
  auto x = module->forward(tokens(), {});
  pass.vectors.push_back(x);
  for (const auto& block : *blocks) {
    const AttentionRecorder recorder;
    auto* decoder = block->as<DecoderBlock>();
    x = decoder != nullptr
            ? decoder->forward(x, pass.memory, self_attention_args(), {.key_mask = text_mask},
                               state)
            : block->as<TransformerBlock>()->forward(x, self_attention_args(), state);
    ++state.layer;
    pass.vectors.push_back(x);
    pass.weights.push_back(recorder.weights().back().select(1, row).clone());
  }
  auto last_norm = norm;
  if (!last_norm.is_empty()) x = last_norm.forward(x);
  if (seq2seq != nullptr) {
    pass.logits = (*seq2seq)->logits(x)[row];
  } else if (auto* model = std::get_if<LanguageModel>(&run.model)) {
    pass.logits = (*model)->logits(x)[row];
  } else {
    pass.logits = std::get<SequenceClassifier>(run.model)->forward(text, text_mask);
  }
  return pass;
}

AttentionArgs ExplainedText::self_attention_args() const {
  AttentionArgs args;
  args.causal = !std::holds_alternative<SequenceClassifier>(run.model);
  if (!is_seq2seq()) args.key_mask = text_mask;
  return args;
}

}  // namespace attend::app
