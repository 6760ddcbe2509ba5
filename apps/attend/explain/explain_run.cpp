#include "explain/explain_run.h"

#include "attend/input_error.h"
#include "attend/ops/attention_recorder.h"

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
  explicit Capture(int64_t layer) : layer_(layer) {}

  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override {
    if (context.state.layer == layer_) context_ = context;
    return output;
  }

  const AttentionContext& context() const { return context_; }

 private:
  int64_t layer_;
  AttentionContext context_;
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

/// Explains a model with an embedding and a TransformerEncoder.
class RunExplainer {
 public:
  RunExplainer(train::Run& run, const RunQuestion& question, TokenEmbedding embedding,
               TransformerEncoder stack, bool causal)
      : run_(run), embedding_(std::move(embedding)), stack_(std::move(stack)), question_(question) {
    const auto& config = run.recipe.stack();
    args_.causal = causal;
    const auto ids = run.tokenizer->encode(question.text);
    const auto count = static_cast<int64_t>(ids.size());
    if (ids.empty() || count > run.recipe.max_seq_len()) {
      throw InputError(fmt::format("--text: expected 1 to {} tokens (max_seq_len), found {}",
                                   run.recipe.max_seq_len(), count));
    }
    if (config.num_layers == 0)
      throw InputError("the model has no attention: num_layers is 0, expected at least 1");
    layer_ = question.layer == 0 ? config.num_layers : question.layer;
    check_range("--layer", layer_, config.num_layers);
    check_range("--head", question.head, config.num_heads);
    head_ = question.head - 1;
    tokens_ = torch::tensor(ids, torch::kLong);
    labels_ = labels_of(ids, *run.tokenizer);
    row_ = question.token.empty() ? count - 1 : row_of("--token", labels_, question.token);
    explanation_ = {fmt::format("Layer {} of {}, head {} of {}", layer_, config.num_layers,
                                question.head, config.num_heads),
                    labels_[static_cast<std::size_t>(row_)]};
  }

  Explanation explain() {
    const auto pass = run();
    const auto& config = run_.recipe.stack();
    const bool added = config.positions == PositionScheme::learned ||
                       config.positions == PositionScheme::sinusoidal;
    std::string formula = "X = E[tokens]";
    if (config.embedding_scale != 1.0)
      formula = fmt::format("X = {} * E[tokens]", config.embedding_scale);
    if (added) formula += " + P[positions]";
    if (config.embedding_norm) formula += ", then a norm";
    add("Token vectors", formula,
        added ? "A learned vector of each token, plus a vector of its position."
        : config.positions == PositionScheme::none
            ? "A learned vector of each token. The model has no position encoding."
            : "A learned vector of each token. Attention takes the positions into account later.",
        {by_token("X", pass.embedded)});
    add_block(pass);
    add_prediction(pass.logits);
    if (changes()) add_changes(pass);
    return std::move(explanation_);
  }

 private:
  /// Intermediate values of one forward pass.
  struct Pass {
    torch::Tensor embedded;    // (T, E)
    torch::Tensor input;       // (T, E), of the block
    torch::Tensor output;      // (T, E), of the block
    AttentionContext context;  // of the block
    torch::Tensor weights;     // (H, T, T), of the block
    torch::Tensor logits;      // (N), of the tokens that may follow, or of the classes
  };

  Pass run() {
    Pass pass;
    Capture capture(layer_ - 1);
    SharedTensors shared;
    torch::Tensor first_values;
    torch::Tensor first_relative_bias;
    ForwardState state{.hook = &capture,
                       .shared = &shared,
                       .first_values = &first_values,
                       .first_relative_bias = &first_relative_bias};
    const AttentionRecorder recorder;
    auto x = pass.embedded = embedding_->forward(tokens_, {});
    for (const auto& module : *stack_->blocks) {
      const auto y = module->as<TransformerBlock>()->forward(x, args_, state);
      if (++state.layer == layer_) {
        pass.input = x;
        pass.output = y;
      }
      x = y;
    }
    pass.context = capture.context();
    pass.weights = recorder.weights().at(static_cast<std::size_t>(layer_ - 1));
    if (!stack_->norm.is_empty()) x = stack_->norm.forward(x);
    if (auto* model = std::get_if<LanguageModel>(&run_.model))
      pass.logits = (*model)->logits(x)[row_];
    else
      pass.logits = std::get<SequenceClassifier>(run_.model)->forward(tokens_, args_.key_mask);
    return pass;
  }

  void add(std::string title, std::string formula, std::string words,
           std::vector<LabelledMatrix> matrices, std::string conclusion = "") {
    explanation_.steps.push_back({.title = std::move(title),
                                  .formula = std::move(formula),
                                  .words = std::move(words),
                                  .matrices = std::move(matrices),
                                  .conclusion = std::move(conclusion)});
  }

  LabelledMatrix by_token(const std::string& name, const torch::Tensor& values) const {
    return {.name = name,
            .values = values,
            .rows = labels_,
            .columns = numbered(name, values.size(-1)),
            .by_token = true};
  }

  /// Returns which keys each query may attend to, bool (T, T).
  torch::Tensor allowed(const AttentionArgs& args) const {
    const auto positions = torch::arange(tokens_.size(0));
    const auto distance = positions.unsqueeze(1) - positions;  // (T, T): query - key
    auto allowed = torch::ones_like(distance, torch::kBool);
    if (args.causal) allowed = allowed & (distance >= 0);
    if (args.sliding_window > 0) allowed = allowed & (distance.abs() < args.sliding_window);
    if (args.key_mask.defined()) allowed = allowed & args.key_mask;
    return allowed;
  }

  void add_block(const Pass& pass) {
    const auto& [embedded, input, output, context, weights, logits] = pass;
    if (layer_ > 1) {
      add(fmt::format("Input of layer {}", layer_), "X",
          fmt::format("The vectors after {} layer{}: they already contain what those layers read "
                      "from other tokens.",
                      layer_ - 1, layer_ == 2 ? "" : "s"),
          {by_token("X", input)});
    }
    if (!context.input.equal(input)) {
      add("Norm", "N = norm(X)", "Each vector is scaled, so that all have a similar size.",
          {by_token("N", context.input)});
    }
    const auto& config = run_.recipe.stack();
    const auto head_width = context.query.size(-1);
    const auto group = context.query.size(0) / context.key.size(0);  // query heads per key head
    const double scale =
        context.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_width)));
    AttentionExample example{.tokens = labels_};
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
      example.bias = (heads.dim() < 3 ? heads : heads[heads.size(0) == 1 ? 0 : head_])
                         .expand_as(weights[head_]);
    }
    example.allowed = allowed(context.args);
    if (context.options.sinks.defined()) example.weights = weights[head_];
    example.prefix = fmt::format("head {}", head_ + 1);
    add_attention_steps(example, row_, explanation_);
    const auto& found = explanation_.steps[explanation_.steps.size() - 2].matrices.back().values;
    if (!found.allclose(weights[head_], 1e-3, 1e-5))
      throw std::logic_error("the attention weights of the steps differ from those of the model");

    const auto change = output - input;
    add(fmt::format("Output of layer {}", layer_), "B",
        config.output_gate
            ? "The outputs of all heads are multiplied by their gates, joined and projected, and "
              "added to X: the residual connection. Then the feed-forward layer is applied to each "
              "token and added, too."
            : "The outputs of all heads are joined and projected, and added to X: the residual "
              "connection. Then the feed-forward layer is applied to each token and added, too.",
        {by_token("B", output)},
        fmt::format("The layer changed the vector of '{}' by {:.0f}% of its length.",
                    explanation_.token,
                    (change[row_].norm() / input[row_].norm()).item<double>() * 100));
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
    const auto conclusion =
        fmt::format("'{}' has the highest probability, {:.1f}%.", table.rows.front(),
                    probabilities.max().item<double>() * 100);
    const auto words =
        run_.classes.empty()
            ? fmt::format(
                  "The vector of '{}' is compared with a vector of each token of the "
                  "vocabulary. The softmax turns these logits into probabilities of the "
                  "next token.",
                  explanation_.token)
            : "The vectors of all tokens are pooled to one. It is compared with a vector of each "
              "class. The softmax turns these logits into probabilities.";
    add("Prediction", "softmax(logits)", words, {std::move(table)}, conclusion);
  }

  bool changes() const {
    return !question_.masks.empty() || !question_.no_heads.empty() || !question_.swaps.empty();
  }

  /// Changes tokens, mask and weights, runs the model again, and adds a step that compares it with
  /// `before`.
  void add_changes(const Pass& before) {
    auto mask = torch::ones_like(tokens_, torch::kBool);
    for (const auto& token : question_.masks) {
      mask[row_of("--mask", labels_, token)] = false;
      described_changes_.push_back(fmt::format("mask {}", token));
    }
    if (!question_.masks.empty()) args_.key_mask = mask;
    for (const auto& head : question_.no_heads) remove_head(head);
    for (const auto& swap : question_.swaps) swap_token(swap);
    const auto after = run();

    const auto row = [&](const Pass& pass) { return pass.weights[head_][row_]; };  // (T)
    const auto old = before.logits.softmax(-1);
    const auto now = after.logits.softmax(-1);
    auto table = top(torch::maximum(old, now), {old, now}, {"before", "after"});
    const auto names = top(now, {now}, {"after"}).rows;
    add("What if", "",
        fmt::format("The model runs again with the changes: {}.",
                    fmt::join(described_changes_, ", ")),
        {{fmt::format("weights of '{}'", explanation_.token),
          torch::stack({row(before), row(after)}, 1),
          labels_,
          {"before", "after"}},
         std::move(table)},
        fmt::format("The prediction {} '{}', with {:.1f}%.",
                    old.argmax().equal(now.argmax()) ? "is still" : "is now", names.front(),
                    now.max().item<double>() * 100));
  }

  /// `text`: "LAYER.HEAD".
  void remove_head(const std::string& text) {
    const auto& config = run_.recipe.stack();
    const auto dot = text.find('.');
    const auto part = [&](const std::string& number, int64_t count) {
      const bool is_number = !number.empty() && number.size() < 10 &&
                             number.find_first_not_of("0123456789") == number.npos;
      if (!is_number || std::stoll(number) < 1 || std::stoll(number) > count) {
        throw InputError(fmt::format(
            "--no-head {}: expected LAYER.HEAD, with a layer from 1 to {} and a head from 1 to {}",
            text, config.num_layers, config.num_heads));
      }
      return std::stoll(number) - 1;
    };
    const auto layer = part(text.substr(0, dot), config.num_layers);
    const auto head = part(dot == text.npos ? "" : text.substr(dot + 1), config.num_heads);
    auto weight = stack_->blocks->ptr(static_cast<std::size_t>(layer))
                      ->as<TransformerBlock>()
                      ->attention->out->weight;  // (E, H * D)
    const auto width = weight.size(1) / config.num_heads;
    weight.slice(1, head * width, (head + 1) * width).zero_();
    described_changes_.push_back(fmt::format("no head {}", text));
  }

  /// `text`: "TOKEN=NEW".
  void swap_token(const std::string& text) {
    const auto at = text.find('=');
    const auto ids =
        at == text.npos ? std::vector<int64_t>() : run_.tokenizer->encode(text.substr(at + 1));
    if (ids.size() != 1) {
      throw InputError(fmt::format(
          "--swap {}: expected TOKEN=NEW, where NEW is one token, found {}", text, ids.size()));
    }
    tokens_[row_of("--swap", labels_, text.substr(0, at))] = ids.front();
    described_changes_.push_back(fmt::format("swap {}", text));
  }

  train::Run& run_;
  TokenEmbedding embedding_;
  TransformerEncoder stack_;
  AttentionArgs args_;
  torch::Tensor tokens_;  // (T)
  std::vector<std::string> labels_;
  int64_t layer_ = 0;  // from 1
  int64_t head_ = 0;   // from 0
  int64_t row_ = 0;    // of the token that is followed
  Explanation explanation_;
  RunQuestion question_;
  std::vector<std::string> described_changes_;
};

}  // namespace

Explanation explain_run(train::Run& run, const RunQuestion& question) {
  if (auto* model = std::get_if<LanguageModel>(&run.model))
    return RunExplainer(run, question, (*model)->embedding, (*model)->decoder, true).explain();
  if (auto* model = std::get_if<SequenceClassifier>(&run.model))
    return RunExplainer(run, question, (*model)->embedding, (*model)->encoder, false).explain();
  throw InputError(
      fmt::format("attend explain requires a language_model or sequence_classifier, "
                  "found a {}",
                  train::model_kind(run.recipe.model)));
}

}  // namespace attend::app
