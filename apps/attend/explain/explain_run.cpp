#include "explain/explain_run.h"

#include "attend/input_error.h"
#include "attend/ops/attention_recorder.h"
#include "attend/train/answer.h"
#include "explain/block_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace attend::app {
namespace {

/// Records what one attention call computes.
class Capture : public AttentionHook {
 public:
  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override {
    context_ = context;
    heads_ = output;
    return output;
  }

  const AttentionContext& context() const { return context_; }
  const torch::Tensor& heads() const { return heads_; }  ///< (H, T, D)

 private:
  AttentionContext context_;
  torch::Tensor heads_;
};

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

/// The parts of a model that are explained: a stack of blocks between embedding and logits.
struct ExplainedModel {
  TokenEmbedding embedding;
  torch::nn::ModuleList blocks;  ///< TransformerBlocks or DecoderBlocks
  torch::nn::AnyModule norm;     ///< after the last block; may be empty
};

ExplainedModel explained_model(train::Model& model) {
  if (auto* language_model = std::get_if<LanguageModel>(&model)) {
    const auto& decoder = (*language_model)->decoder;
    return {(*language_model)->embedding, decoder->blocks, decoder->norm};
  }
  if (auto* classifier = std::get_if<SequenceClassifier>(&model)) {
    const auto& encoder = (*classifier)->encoder;
    return {(*classifier)->embedding, encoder->blocks, encoder->norm};
  }
  const auto& seq2seq = std::get<Seq2Seq>(model);
  const auto& decoder = seq2seq->transformer->decoder;
  return {seq2seq->target_embedding, decoder->blocks, decoder->norm};
}

torch::Tensor to_tensor(const std::vector<int64_t>& ids) {
  return torch::tensor(ids, torch::kLong);
}

class RunExplainer {
 public:
  RunExplainer(train::Run& run, const RunQuestion& question)
      : run_(run), question_(question), model_(explained_model(run.model)) {
    const auto num_layers = static_cast<int64_t>(model_.blocks->size());
    const auto num_heads = run.recipe.stack().num_heads;
    const auto ids = run.tokenizer->encode(question.text);
    check_count("--text", ids, 1);
    if (num_layers == 0)
      throw InputError("the model has no attention: num_layers is 0, expected at least 1");
    layer_ = question.layer == 0 ? num_layers : question.layer;
    check_range("--layer", layer_, num_layers);
    check_range("--head", question.head, num_heads);
    head_ = question.head - 1;
    text_ = to_tensor(ids);
    text_labels_ = labels_of(ids, *run.tokenizer);
    tokens_ = text_;
    auto labels = text_labels_;
    if (is_seq2seq()) {
      const auto answer = answer_ids(ids);
      tokens_ = to_tensor(answer);
      labels = labels_of(answer, *run.tokenizer);
    } else if (question.answer) {
      throw InputError(
          fmt::format("--answer has no effect: only a seq2seq has an answer, found a {}",
                      train::model_kind(run.recipe.model)));
    }
    args_.causal = !std::holds_alternative<SequenceClassifier>(run.model);
    const auto row =
        question.token.empty() ? tokens_.size(0) - 1 : row_of("--token", labels, question.token);
    explanation_ = {fmt::format("Layer {} of {}{}, head {} of {}", layer_, num_layers,
                                is_seq2seq() ? " of the decoder" : "", question.head, num_heads),
                    labels[static_cast<std::size_t>(row)]};
    steps_.emplace(std::move(labels), row, explanation_);
  }

  Explanation explain() {
    const auto pass = run();
    add_token_vectors(pass);
    add_block(pass);
    if (!model_.norm.is_empty()) {
      const auto symbol = layer_ == static_cast<int64_t>(model_.blocks->size()) ? "B" : "X";
      add_norm_step(*model_.norm.ptr(), {symbol, pass.last}, "N", "after the last layer", *steps_);
    }
    add_prediction(pass.logits);
    if (changes()) add_changes(pass);
    return std::move(explanation_);
  }

 private:
  /// Intermediate values of one forward pass.
  struct Pass {
    torch::Tensor memory;               // (S, E), output of the encoder of a Seq2Seq
    torch::Tensor embedded;             // (T, E)
    torch::Tensor input;                // (T, E), of the block
    torch::Tensor output;               // (T, E), of the block
    torch::Tensor last;                 // (T, E), of the last block
    torch::Tensor weights;              // (H, T, S), of the block; of a Seq2Seq, of the
                                        // cross-attention
    torch::Tensor first_values;         // see ForwardState
    torch::Tensor first_relative_bias;  // see ForwardState
    torch::Tensor logits;               // (N), of the tokens that may follow, or of the classes
  };

  bool is_seq2seq() const { return std::holds_alternative<Seq2Seq>(run_.model); }
  const std::string& token() const { return steps_->token(); }

  void check_count(const char* flag, const std::vector<int64_t>& ids, std::size_t min) const {
    const auto max_seq_len = run_.recipe.max_seq_len();
    if (ids.size() >= min && static_cast<int64_t>(ids.size()) <= max_seq_len) return;
    throw InputError(fmt::format("{}: expected {} to {} tokens (max_seq_len), found {}", flag, min,
                                 max_seq_len, ids.size()));
  }

  /// Returns the tokens that the decoder of a Seq2Seq reads: the begin token and the answer. The
  /// decoder does not read the last token of an answer of max_seq_len tokens.
  std::vector<int64_t> answer_ids(const std::vector<int64_t>& text) const {
    const auto max_seq_len = run_.recipe.max_seq_len();
    const auto special = train::answer_tokens(*run_.tokenizer);
    const GenerationOptions greedy{.max_new_tokens = max_seq_len, .sampling = {.temperature = 0.0}};
    auto ids = question_.answer
                   ? run_.tokenizer->encode(*question_.answer)
                   : generate(std::get<Seq2Seq>(run_.model), text, special, greedy).tokens;
    std::erase(ids, special.eos_token);
    check_count("--answer", ids, 0);
    ids.insert(ids.begin(), special.bos_token);
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(max_seq_len)));
    return ids;
  }

  Pass run() {
    Pass pass;
    auto* seq2seq = std::get_if<Seq2Seq>(&run_.model);
    if (seq2seq != nullptr) pass.memory = (*seq2seq)->encode(text_, text_mask_);
    SharedTensors shared;
    ForwardState state{.shared = &shared,
                       .first_values = &pass.first_values,
                       .first_relative_bias = &pass.first_relative_bias};
    auto x = pass.embedded = model_.embedding->forward(tokens_, {});
    for (const auto& block : *model_.blocks) {
      const AttentionRecorder recorder;
      const auto y = forward(*block, x, pass.memory, state);
      if (++state.layer == layer_) {
        pass.input = x;
        pass.output = y;
        pass.weights = recorder.weights().back();
      }
      x = y;
    }
    pass.last = x;
    if (!model_.norm.is_empty()) x = model_.norm.forward(x);
    if (seq2seq != nullptr) {
      pass.logits = (*seq2seq)->logits(x)[steps_->row()];
    } else if (auto* model = std::get_if<LanguageModel>(&run_.model)) {
      pass.logits = (*model)->logits(x)[steps_->row()];
    } else {
      pass.logits = std::get<SequenceClassifier>(run_.model)->forward(tokens_, text_mask_);
    }
    return pass;
  }

  torch::Tensor forward(torch::nn::Module& block, const torch::Tensor& x,
                        const torch::Tensor& memory, const ForwardState& state) const {
    if (auto* decoder = block.as<DecoderBlock>())
      return decoder->forward(x, memory, self_args(), {.key_mask = text_mask_}, state);
    return block.as<TransformerBlock>()->forward(x, self_args(), state);
  }

  AttentionArgs self_args() const {
    auto args = args_;
    if (!is_seq2seq()) args.key_mask = text_mask_;
    return args;
  }

  void add_token_vectors(const Pass& pass) {
    const auto& config = run_.recipe.stack();
    if (is_seq2seq()) {
      auto matrix = steps_->by_token("M", pass.memory);
      matrix.rows = text_labels_;
      matrix.by_token = false;
      steps_->add({.title = "Memory",
                   .formula = "M = encoder(text)",
                   .description =
                       "The encoder turns each token of the text into a vector that also "
                       "contains what the token reads from the others. The decoder reads "
                       "these vectors and writes the answer.",
                   .matrices = {std::move(matrix)}});
    }
    const bool added = config.positions == PositionScheme::learned ||
                       config.positions == PositionScheme::sinusoidal;
    std::string formula = "X = E[tokens]";
    if (config.embedding_scale != 1.0)
      formula = fmt::format("X = {} * E[tokens]", config.embedding_scale);
    if (added) formula += " + P[positions]";
    if (config.embedding_norm) formula += ", then a norm";
    steps_->add(
        {.title = "Token vectors",
         .formula = formula,
         .description =
             added ? "A learned vector of each token, plus a vector of its position."
             : config.positions == PositionScheme::none
                 ? "A learned vector of each token. The model has no position encoding."
                 : "A learned vector of each token. Attention takes the positions into account "
                   "later.",
         .matrices = {steps_->by_token("X", pass.embedded)}});
    if (layer_ == 1) return;
    steps_->add({.title = fmt::format("Input of layer {}", layer_),
                 .formula = "X",
                 .description = fmt::format("The vectors after {} layer{}: they already contain "
                                            "what those layers read from other tokens.",
                                            layer_ - 1, layer_ == 2 ? "" : "s"),
                 .matrices = {steps_->by_token("X", pass.input)}});
  }

  void add_block(const Pass& pass) {
    auto& module = *model_.blocks->ptr(static_cast<std::size_t>(layer_ - 1));
    auto first_values = pass.first_values;
    auto first_relative_bias = pass.first_relative_bias;
    SharedTensors shared;
    const ForwardState state{.layer = layer_ - 1,
                             .shared = &shared,
                             .first_values = &first_values,
                             .first_relative_bias = &first_relative_bias};
    auto* decoder = module.as<DecoderBlock>();
    auto* encoder = module.as<TransformerBlock>();
    const auto attend = [&](const TokenMatrix& x) {
      const auto& attention = decoder != nullptr ? decoder->attention : encoder->attention;
      return add_attention(attention, x, {}, self_args(), state);
    };
    const auto attend_memory = [&](const TokenMatrix& x) {
      return add_attention(decoder->cross_attention, x, pass.memory, {.key_mask = text_mask_},
                           {.layer = state.layer, .shared = &shared});
    };
    const auto feed = [&](const TokenMatrix& x) {
      auto& layers = decoder != nullptr ? decoder->feed_forward : encoder->feed_forward;
      return add_feed_forward_steps(layers, x, "feed-forward", *steps_);
    };
    std::vector<BranchExample> branches{{"attention", "1", "R", attend}};
    if (decoder != nullptr) branches.push_back({"cross-attention", "_cross", "C", attend_memory});
    branches.push_back({"feed-forward", "2", "B", feed});
    const auto order = decoder != nullptr ? decoder->options.residual().norm_order()
                                          : encoder->options.residual().norm_order();
    const auto output = add_block_steps(module, order, branches, {"X", pass.input}, *steps_);
    if (!output.values.allclose(pass.output, 1e-3, 1e-5))
      throw std::logic_error("the output of the steps differs from that of the model");
  }

  /// Appends the steps of the explained head and of the output projection. `memory` (S, E) is
  /// undefined in self-attention.
  TokenMatrix add_attention(MultiheadAttention attention, const TokenMatrix& x,
                            const torch::Tensor& memory, const AttentionArgs& args,
                            ForwardState state) {
    Capture capture;
    state.hook = &capture;
    const bool cross = memory.defined();
    const AttentionRecorder recorder;
    if (cross)
      attention->cross(x.values, memory, memory, args, state);
    else
      attention->forward(x.values, args, state);
    const auto& context = capture.context();
    const auto weights = recorder.weights().back()[head_];
    const auto* title = cross ? "cross-attention" : "attention";
    auto example = head_example(context, weights);
    if (cross) example.sources = text_labels_;
    example.prefix = fmt::format("{}head {}", cross ? "cross-attention, " : "", head_ + 1);
    add_attention_steps(example, steps_->row(), explanation_);
    const auto& found = explanation_.steps[explanation_.steps.size() - 2].matrices.back().values;
    if (!found.allclose(weights, 1e-3, 1e-5))
      throw std::logic_error("the attention weights of the steps differ from those of the model");

    auto heads = capture.heads();
    for (const auto& child : attention->children()) {
      if (auto* hook = dynamic_cast<AttentionHook*>(child.get()))
        heads = hook->after_attention(context, heads);
    }
    if (!heads.equal(capture.heads())) {
      steps_->add({.title = fmt::format("head {}: Gate", head_ + 1),
                   .formula = "Y = Y * gate",
                   .description = "The output of the head is multiplied by a learned gate, which "
                                  "depends on the vector of the token.",
                   .matrices = {steps_->by_token("Y", heads[head_], "y")}});
    }
    return add_joined_heads_steps(heads, attention->out, title, *steps_);
  }

  /// `weights`: (T, S), of the explained head.
  AttentionExample head_example(const AttentionContext& context,
                                const torch::Tensor& weights) const {
    AttentionExample example{.tokens = steps_->tokens()};
    const auto head_width = context.query.size(-1);
    const auto group = context.query.size(0) / context.key.size(0);  // query heads per key head
    const double scale =
        context.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_width)));
    example.queries = context.query[head_];
    example.keys = context.key[head_ / group];
    example.values = context.value[head_ / group];
    if (scale != 1.0) {
      example.divisor = 1.0 / scale;
      example.divisor_text = context.options.scale ? fmt::format("{:.4f}", 1.0 / scale)
                                                   : fmt::format("sqrt({})", head_width);
    }
    example.soft_cap = context.options.soft_cap;
    const auto& bias = context.options.bias;
    if (bias.defined()) {
      const auto heads = bias.dim() < 3 ? bias : bias.reshape({-1, bias.size(-2), bias.size(-1)});
      example.bias =
          (heads.dim() < 3 ? heads : heads[heads.size(0) == 1 ? 0 : head_]).expand_as(weights);
    }
    example.allowed = allowed(context.args, weights);
    if (context.options.sinks.defined()) example.weights = weights;
    return example;
  }

  /// Returns which keys each query may attend to, bool. `weights`: (T, S).
  static torch::Tensor allowed(const AttentionArgs& args, const torch::Tensor& weights) {
    const auto distance = torch::arange(weights.size(0)).unsqueeze(1) -
                          torch::arange(weights.size(1));  // (T, S): query - key
    auto allowed = torch::ones_like(distance, torch::kBool);
    if (args.causal) allowed = allowed & (distance >= 0);
    if (args.sliding_window > 0) allowed = allowed & (distance.abs() < args.sliding_window);
    if (args.key_mask.defined()) allowed = allowed & args.key_mask;
    return allowed;
  }

  /// Returns the tokens or classes with the highest probabilities, and a column of numbers for each
  /// of `columns` (N).
  LabelledMatrix top(const torch::Tensor& probabilities, const std::vector<torch::Tensor>& columns,
                     std::vector<std::string> names) const {
    constexpr int64_t kShown = 8;
    const auto order =
        std::get<1>(probabilities.topk(std::min<int64_t>(kShown, probabilities.size(0))));
    LabelledMatrix table{
        "prediction", torch::stack(columns, 1).index({order}), {}, std::move(names)};
    const bool classes = !run_.classes.empty();
    for (int64_t i = 0; i < order.size(0); ++i) {
      const auto id = order[i].item<int64_t>();
      table.rows.push_back(classes ? run_.classes[static_cast<std::size_t>(id)]
                                   : run_.tokenizer->token(id));
    }
    return table;
  }

  void add_prediction(const torch::Tensor& logits) {
    const auto probabilities = logits.softmax(-1);
    auto table = top(probabilities, {logits, probabilities}, {"logit", "probability"});
    const auto& best = table.rows.front();
    const auto calculation =
        fmt::format("P[{}] = {}", best, steps_->softmax(logits, logits.argmax().item<int64_t>()));
    const auto conclusion = fmt::format("'{}' has the highest probability, {:.1f}%.", best,
                                        probabilities.max().item<double>() * 100);
    steps_->add(
        {.title = "Prediction",
         .formula = "P = softmax(logits)",
         .description =
             run_.classes.empty()
                 ? fmt::format("The vector of '{}' is compared with a vector of each token of the "
                               "vocabulary. The softmax turns these logits into probabilities of "
                               "the next token.",
                               token())
                 : "The vectors of all tokens are pooled to one. It is compared with a vector of "
                   "each class. The softmax turns these logits into probabilities.",
         .matrices = {std::move(table)},
         .calculation = calculation,
         .conclusion = conclusion});
  }

  bool changes() const {
    return !question_.masks.empty() || !question_.no_heads.empty() || !question_.swaps.empty();
  }

  /// Changes tokens, mask and weights, runs the model again, and adds a step that compares it with
  /// `before`.
  void add_changes(const Pass& before) {
    auto mask = torch::ones_like(text_, torch::kBool);
    for (const auto& masked : question_.masks) {
      mask[row_of("--mask", text_labels_, masked)] = false;
      described_changes_.push_back(fmt::format("mask {}", masked));
    }
    if (!question_.masks.empty()) text_mask_ = mask;
    for (const auto& head : question_.no_heads) remove_head(head);
    for (const auto& swap : question_.swaps) swap_token(swap);
    const auto after = run();

    const auto row = [&](const Pass& pass) { return pass.weights[head_][steps_->row()]; };  // (S)
    const auto old = before.logits.softmax(-1);
    const auto now = after.logits.softmax(-1);
    auto table = top(torch::maximum(old, now), {old, now}, {"before", "after"});
    const auto names = top(now, {now}, {"after"}).rows;
    steps_->add({.title = "What if",
                 .description = fmt::format("The model runs again with the changes: {}.",
                                            fmt::join(described_changes_, ", ")),
                 .matrices = {{fmt::format("weights of '{}'", token()),
                               torch::stack({row(before), row(after)}, 1),
                               text_labels_,
                               {"before", "after"}},
                              std::move(table)},
                 .conclusion = fmt::format("The prediction {} '{}', with {:.1f}%.",
                                           old.argmax().equal(now.argmax()) ? "is still" : "is now",
                                           names.front(), now.max().item<double>() * 100)});
  }

  /// `text`: "LAYER.HEAD".
  void remove_head(const std::string& text) {
    const auto num_layers = static_cast<int64_t>(model_.blocks->size());
    const auto num_heads = run_.recipe.stack().num_heads;
    const auto dot = text.find('.');
    const auto part = [&](const std::string& digits, int64_t count) {
      const auto number = number_in(digits).value_or(0);
      if (number < 1 || number > count) {
        throw InputError(fmt::format(
            "--no-head {}: expected LAYER.HEAD, with a layer from 1 to {} and a head from 1 to {}",
            text, num_layers, num_heads));
      }
      return number - 1;
    };
    const auto layer = part(text.substr(0, dot), num_layers);
    const auto head = part(dot == text.npos ? "" : text.substr(dot + 1), num_heads);
    auto& block = *model_.blocks->ptr(static_cast<std::size_t>(layer));
    auto* decoder = block.as<DecoderBlock>();
    const auto& attention =
        decoder != nullptr ? decoder->cross_attention : block.as<TransformerBlock>()->attention;
    auto weight = attention->out->weight;  // (E, H * D)
    const auto width = weight.size(1) / num_heads;
    weight.slice(1, head * width, (head + 1) * width).zero_();
    described_changes_.push_back(fmt::format("no head {}", text));
  }

  /// `text`: "TOKEN=NEW".
  void swap_token(const std::string& text) {
    const auto at = text.find('=', 1);  // the token may be '='
    const auto ids =
        at == text.npos ? std::vector<int64_t>() : run_.tokenizer->encode(text.substr(at + 1));
    if (ids.size() != 1) {
      throw InputError(fmt::format(
          "--swap {}: expected TOKEN=NEW, where NEW is one token, found {}", text, ids.size()));
    }
    text_[row_of("--swap", text_labels_, text.substr(0, at))] = ids.front();
    described_changes_.push_back(fmt::format("swap {}", text));
  }

  train::Run& run_;
  RunQuestion question_;
  ExplainedModel model_;
  torch::Tensor text_;                    // (S), tokens of the text
  std::vector<std::string> text_labels_;  // S labels
  torch::Tensor text_mask_;               // bool (S), true = may be attended to; undefined = all
  torch::Tensor tokens_;  // (T), tokens whose vectors the blocks process: the text or, for a
                          // Seq2Seq, the answer
  AttentionArgs args_;    // of self-attention
  int64_t layer_ = 0;     // from 1
  int64_t head_ = 0;      // from 0
  Explanation explanation_;
  std::optional<TokenSteps> steps_;  // of `tokens_`
  std::vector<std::string> described_changes_;
};

}  // namespace

Explanation explain_run(train::Run& run, const RunQuestion& question) {
  return RunExplainer(run, question).explain();
}

}  // namespace attend::app
