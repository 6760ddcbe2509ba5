#include "explain/explain_run.h"

#include "attend/input_error.h"
#include "attend/ops/attention_recorder.h"
#include "explain/attention_steps.h"
#include "explain/block_steps.h"
#include "explain/head_steps.h"
#include "explain/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

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

/// Explains one head of a layer.
class HeadExplainer {
 public:
  /// `layer` is counted from 1, `head` from 0. `row`: number of the token to follow.
  HeadExplainer(const ExplainedText& text, const ForwardPass& pass, int64_t layer, int64_t head,
                int64_t row)
      : run_(text.run),
        text_(text),
        pass_(pass),
        layer_(layer),
        head_(head),
        explanation_{.title = fmt::format(
                         "Layer {} of {}{}, head {} of {}", layer, text.num_layers(),
                         text.is_seq2seq() ? " of the decoder" : "", head + 1, text.num_heads()),
                     .token = text.labels[static_cast<std::size_t>(row)],
                     .layer = layer,
                     .head = head + 1},
        steps_(text.labels, row, explanation_) {}

  void add_model() {
    add_token_vectors();
    TokenMatrix x = add_block();
    if (layer_ < text_.num_layers()) {
      x = {"X", pass_.vectors.back()};
      steps_.add({.title = "Output of the last layer",
                  .formula = "X",
                  .description = fmt::format("The vectors after the other {} layer{}.",
                                             text_.num_layers() - layer_,
                                             text_.num_layers() - layer_ == 1 ? "" : "s"),
                  .matrices = {output_of(text_.num_layers())}});
    }
    if (!text_.norm.is_empty())
      x = add_norm_step(*text_.norm.ptr(), x, "N", "after the last layer", steps_);
    add_prediction(x.values);
  }

  /// Compares with a pass of the model after `changes`.
  void add_changes(const ForwardPass& changed, const std::vector<std::string>& changes) {
    const auto weights = [&](const ForwardPass& pass) {
      return pass.weights[static_cast<std::size_t>(layer_ - 1)][head_];  // (S)
    };
    const auto old = pass_.logits.softmax(-1);
    const auto now = changed.logits.softmax(-1);
    auto order = torch::maximum(old, now);
    order.index_put_({torch::stack({old.argmax(), now.argmax()})}, 1.0);  // both predictions
    auto table = top(order, {old, now}, {"before", "after"});
    table.comparison = true;
    const auto names = top(now, {now}, {"after"}).rows;
    steps_.add({.title = "What if",
                .description = fmt::format("The model runs again with the changes: {}.",
                                           fmt::join(changes, ", ")),
                .matrices = {{.name = fmt::format("weights of '{}'", token()),
                              .values = torch::stack({weights(pass_), weights(changed)}, 1),
                              .rows = text_.text_labels,
                              .columns = {"before", "after"},
                              .comparison = true},
                             std::move(table)},
                .conclusion = fmt::format("The prediction {} '{}', with {:.1f}%.",
                                          old.argmax().equal(now.argmax()) ? "is still" : "is now",
                                          names.front(), now.max().item<double>() * 100)});
  }

  Explanation explanation() { return std::move(explanation_); }

 private:
  const std::string& token() const { return steps_.token(); }
  /// Returns the input of the layer (T, E).
  const torch::Tensor& input() const { return pass_.vectors[static_cast<std::size_t>(layer_ - 1)]; }

  void add_token_vectors() {
    const auto& config = run_.recipe.stack();
    if (text_.is_seq2seq()) {
      auto matrix = steps_.by_token("M", pass_.memory);
      matrix.rows = text_.text_labels;
      matrix.by_token = false;
      steps_.add({.title = "Memory",
                  .formula = "M = encoder(text)",
                  .description = "The encoder turns each token of the text into a vector that also "
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
    steps_.add(
        {.title = "Token vectors",
         .formula = formula,
         .description =
             added ? "A learned vector of each token, plus a vector of its position."
             : config.positions == PositionScheme::none
                 ? "A learned vector of each token. The model has no position encoding."
                 : "A learned vector of each token. Attention takes the positions into account "
                   "later.",
         .matrices = embedding_matrices()});
    if (layer_ == 1) return;
    steps_.add({.title = fmt::format("Input of layer {}", layer_),
                .formula = "X",
                .description = fmt::format("The vectors after {} layer{}: they already contain "
                                           "what those layers read from other tokens.",
                                           layer_ - 1, layer_ == 2 ? "" : "s"),
                .matrices = {output_of(layer_ - 1)}});
  }

  /// Returns the vectors after another layer, which other explanations compute.
  LabelledMatrix output_of(int64_t layer) const {
    return steps_.by_token("X", pass_.vectors[static_cast<std::size_t>(layer)],
                           {.operation = "layer", .number = static_cast<double>(layer)});
  }

  /// Returns the matrices of the token vectors: E and P, whose sum is X; or X alone if they are not
  /// added up or have a norm.
  std::vector<LabelledMatrix> embedding_matrices() {
    auto& embedding = *text_.embedding.ptr();
    const auto& options = embedding.options;
    const auto& x = pass_.vectors.front();
    if (embedding.position.is_empty() || !embedding.norm.is_empty())
      return {steps_.by_token("X", x)};
    const auto tokens = embedding.token(text_.tokens()) * options.embedding_scale();
    const auto positions = embedding.position.forward(torch::arange(x.size(0)));
    const bool scaled = options.embedding_scale() != 1.0;
    return {steps_.by_token(scaled ? fmt::format("{} * E", options.embedding_scale()) : "E", tokens,
                            {}, "X"),
            steps_.by_token("P", positions, {}, "X"),
            steps_.by_token("X", x, {"sum", {tokens, positions}})};
  }

  TokenMatrix add_block() {
    auto& module = *text_.blocks->ptr(static_cast<std::size_t>(layer_ - 1));
    auto first_values = pass_.first_values;
    auto first_relative_bias = pass_.first_relative_bias;
    SharedTensors shared;
    const ForwardState state{.layer = layer_ - 1,
                             .shared = &shared,
                             .first_values = &first_values,
                             .first_relative_bias = &first_relative_bias};
    auto* decoder = module.as<DecoderBlock>();
    auto* encoder = module.as<TransformerBlock>();
    const auto attend = [&](const TokenMatrix& x) {
      const auto& attention = decoder != nullptr ? decoder->attention : encoder->attention;
      return add_attention(attention, x, {}, text_.self_attention_args(), state);
    };
    const auto attend_memory = [&](const TokenMatrix& x) {
      return add_attention(decoder->cross_attention, x, pass_.memory, {.key_mask = text_.text_mask},
                           {.layer = state.layer, .shared = &shared});
    };
    const auto feed = [&](const TokenMatrix& x) {
      auto& layers = decoder != nullptr ? decoder->feed_forward : encoder->feed_forward;
      return add_feed_forward_steps(layers, x, "feed-forward", steps_);
    };
    std::vector<ResidualBranch> branches{{"attention", "1", "R", attend}};
    if (decoder != nullptr) branches.push_back({"cross-attention", "_cross", "C", attend_memory});
    branches.push_back({"feed-forward", "2", "B", feed});
    const auto order = decoder != nullptr ? decoder->options.residual().norm_order()
                                          : encoder->options.residual().norm_order();
    const auto output = add_block_steps(module, order, branches, {"X", input()}, steps_);
    if (!output.values.allclose(pass_.vectors[static_cast<std::size_t>(layer_)], 1e-3, 1e-5))
      throw std::logic_error("the output of the steps differs from that of the model");
    return output;
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
    example.inputs = x.values;
    example.input = x.symbol;
    example.memory = memory;
    if (cross) example.sources = text_.text_labels;
    example.prefix = fmt::format("{}head {}", cross ? "cross-attention, " : "", head_ + 1);
    set_projections(attention, head_, example);
    const auto vectors = add_head_vectors(example, attention, context, state);
    auto output = add_score_steps(example, vectors, steps_.row(), explanation_);
    const auto& found = explanation_.steps[explanation_.steps.size() - 2].matrices.back().values;
    if (!found.allclose(weights, 1e-3, 1e-5))
      throw std::logic_error("the attention weights of the steps differ from those of the model");

    auto heads = capture.heads();
    for (const auto& child : attention->children()) {
      if (auto* gate = child->as<OutputGate>())
        output = add_gate_step(*gate, head_, x, output, example.prefix, steps_);
      if (auto* hook = dynamic_cast<AttentionHook*>(child.get()))
        heads = hook->after_attention(context, heads);
    }
    if (!heads[head_].allclose(output, 1e-2, 1e-3))
      throw std::logic_error("the output of the head differs from that of the model");
    auto outputs = heads.unbind();
    outputs[static_cast<std::size_t>(head_)] = output;
    return add_joined_heads_steps(outputs, attention->out, title, steps_);
  }

  /// Appends the steps of the queries, keys and values of the explained head.
  HeadVectors add_head_vectors(const AttentionInputs& example, const MultiheadAttention& attention,
                               const AttentionContext& context, const ForwardState& state) {
    const auto kv_head = head_ / (context.query.size(0) / context.key.size(0));
    const auto* first_values = state.first_values;
    const bool has_first = layer_ > 1 && first_values != nullptr && first_values->defined();
    const HookInputs inputs{.kv_head = kv_head,
                            .first_values = has_first ? (*first_values)[kv_head] : torch::Tensor(),
                            .key_mask = context.args.key_mask};
    const auto vectors = add_hook_steps(example, attention, inputs,
                                        add_projection_steps(example, steps_.row(), explanation_),
                                        steps_.row(), explanation_);
    if (!vectors.queries.allclose(context.query[head_], 1e-2, 1e-3) ||
        !vectors.keys.allclose(context.key[kv_head], 1e-2, 1e-3) ||
        !vectors.values.allclose(context.value[kv_head], 1e-2, 1e-3))
      throw std::logic_error("the vectors of the head differ from those of the model");
    return vectors;
  }

  /// `weights`: (T, S), of the explained head.
  AttentionInputs head_example(const AttentionContext& context,
                               const torch::Tensor& weights) const {
    AttentionInputs example{.tokens = steps_.tokens()};
    const auto head_width = context.query.size(-1);
    const double scale =
        context.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_width)));
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

  /// The vector from which the logits are computed, (T, E) or, of a classifier, (1, E): appends the
  /// step that pools the vectors `x` (T, E) of a classifier.
  torch::Tensor add_pooled_vector(const torch::Tensor& x) {
    auto* classifier = std::get_if<SequenceClassifier>(&run_.model);
    if (classifier == nullptr) return x;
    const auto pooling = (*classifier)->config.pooling;
    ExplanationStep step{.title = "Pooled vector",
                         .formula = fmt::format("P = {} of the vectors", to_string(pooling)),
                         .description = "The vectors of all tokens become one vector."};
    LabelledMatrix pooled{"P",
                          pooling == Pooling::max ? std::get<0>(x.max(0, true)) : torch::Tensor(),
                          {"P"},
                          numbered("P", x.size(1))};
    if (pooling != Pooling::max) {
      auto weights = torch::zeros({1, x.size(0)});
      if (pooling == Pooling::mean)
        weights.fill_(1.0 / static_cast<double>(x.size(0)));
      else
        weights[0][0] = 1.0;
      step.matrices.push_back({"p", weights, {"p"}, text_.labels});
      pooled.values = weights.mm(x);
      pooled.origin = {"linear", {weights, x}};
    }
    const auto result = pooled.values;
    step.matrices.push_back(std::move(pooled));
    steps_.add(std::move(step));
    return result;
  }

  /// Returns the weight (N, E) and the bias (N), which may be undefined, of the logits.
  std::pair<torch::Tensor, torch::Tensor> output_layer() const {
    const auto weight_of = [](const auto& model, const auto& embedding) {
      return model->config.tie_embeddings ? embedding->token->weight : model->head->weight;
    };
    if (auto* model = std::get_if<LanguageModel>(&run_.model))
      return {weight_of(*model, (*model)->embedding), {}};
    if (auto* model = std::get_if<Seq2Seq>(&run_.model))
      return {weight_of(*model, (*model)->target_embedding), {}};
    const auto& head = std::get<SequenceClassifier>(run_.model)->head;
    return {head->weight, head->bias};
  }

  /// `x`: (T, E), after the last layer.
  void add_prediction(const torch::Tensor& x) {
    const auto& logits = pass_.logits;
    const auto vectors = add_pooled_vector(x);
    const auto probabilities = logits.softmax(-1);
    auto table = top(probabilities, {logits, probabilities}, {"logit", "probability"});
    const auto [weight, bias] = output_layer();
    const auto order = std::get<1>(probabilities.topk(table.values.size(0)));
    const double shift = softmax_shift(logits);
    table.origin = {.operation = "prediction",
                    .number = (logits.to(torch::kDouble) - shift).exp().sum().item<double>(),
                    .shift = shift};
    std::vector<LabelledMatrix> matrices;
    // Not if the logits are scaled or capped, or are those of a model with a pooler.
    const auto vector = vectors[vectors.size(0) == 1 ? 0 : steps_.row()];
    const auto expected = bias.defined() ? weight.mv(vector) + bias : weight.mv(vector);
    if (expected.allclose(logits, 1e-3, 1e-4)) {
      matrices.push_back(
          {"W", weight.index({order}).t(), numbered("x", weight.size(1)), table.rows});
      table.origin.operands = {vectors, matrices.back().values};
      if (bias.defined()) {
        auto biases = row_matrix("b", bias.index({order}), "b");
        biases.columns = table.rows;
        table.origin.operands.push_back(biases.values);
        matrices.push_back(std::move(biases));
      }
    }
    const auto best = table.rows.front();
    matrices.insert(matrices.begin(), std::move(table));
    const auto calculation =
        fmt::format("P[{}] = {}", best, steps_.softmax(logits, logits.argmax().item<int64_t>()));
    const auto conclusion = fmt::format("'{}' has the highest probability, {:.1f}%.", best,
                                        probabilities.max().item<double>() * 100);
    steps_.add(
        {.title = "Prediction",
         .formula = "P = softmax(logits)",
         .description =
             run_.classes.empty()
                 ? fmt::format("The vector of '{}' is compared with a vector of each token of the "
                               "vocabulary. The softmax turns these logits into probabilities of "
                               "the next token.",
                               token())
                 : "The pooled vector is compared with a vector of each class. The softmax turns "
                   "these logits into probabilities.",
         .matrices = std::move(matrices),
         .calculation = calculation,
         .conclusion = conclusion});
  }

  const train::Run& run_;
  const ExplainedText& text_;
  const ForwardPass& pass_;
  int64_t layer_;  // from 1
  int64_t head_;   // from 0
  Explanation explanation_;
  TokenSteps steps_;  // of the tokens of the stack
};

}  // namespace

RunExplainer::RunExplainer(ExplainedText text, RunQuestion question)
    : text_(std::move(text)),
      question_(std::move(question)),
      row_(question_.token.empty() ? static_cast<int64_t>(text_.labels.size()) - 1
                                   : row_of("--token", text_.labels, question_.token)),
      pass_(text_.forward(row_)) {
  if (question_.layer == 0) question_.layer = text_.num_layers();
  if (!changes_of(question_).empty()) changed_ = with_changes(text_, question_).forward(row_);
}

Explanation RunExplainer::explain(int64_t layer, int64_t head) const {
  check_range("--layer", layer, text_.num_layers());
  check_range("--head", head, text_.num_heads());
  HeadExplainer explainer(text_, pass_, layer, head - 1, row_);
  explainer.add_model();
  if (changed_) explainer.add_changes(*changed_, changes_of(question_));
  return explainer.explanation();
}

}  // namespace attend::app
