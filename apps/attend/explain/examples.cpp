// The built-in examples of `attend explain`: five introductions to attention.
#include "explain/examples.h"

#include "attend/nn/transformer_block.h"
#include "explain/attention_steps.h"
#include "explain/block_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

namespace attend::app {
namespace {

/// Returns the index of `token`, or of `otherwise` if `token` is empty.
int64_t row_or(const std::vector<std::string>& tokens, const std::string& token,
               const char* otherwise) {
  return row_of("--token", tokens, token.empty() ? otherwise : token);
}

Explanation explain_sky(const std::string& token) {
  const std::vector<std::string> tokens{"sky", "is", "blue"};
  const auto row = row_or(tokens, token, "sky");
  Explanation explanation{"Self-attention of three words: sky is blue", tokens[row]};
  add_attention_steps(
      {.tokens = tokens,
       .inputs = torch::tensor({{-1.0720, -0.5001}, {-0.0020, -0.4311}, {-0.0020, -0.4311}},
                               torch::kFloat),
       .query = Projection{torch::tensor({{-0.0271, -0.3840}, {-0.3940, -0.6610}}, torch::kFloat)},
       .key = Projection{torch::tensor({{-0.4109, 0.5777}, {-0.1162, -0.1661}}, torch::kFloat)},
       .value = Projection{torch::tensor({{-0.2045, 0.1210}, {-0.1712, -0.4462}}, torch::kFloat)},
       .divisor = std::sqrt(2.0),
       .divisor_text = "sqrt(2)"},
      row, explanation);
  return explanation;
}

Explanation explain_numpy(const std::string& token) {
  const std::vector<std::string> tokens{"t1", "t2", "t3", "t4"};
  const auto row = row_or(tokens, token, "t2");
  const auto matrix = [](const std::vector<double>& numbers) {
    return torch::tensor(numbers, torch::kDouble).view({4, 8});
  };
  // The text rounds its inputs and its results to 8 decimals; 7 decimals of both are the same.
  constexpr int kDecimals = 7;
  Explanation explanation{
      "Masked self-attention of four tokens, with given queries, keys and values", tokens[row],
      kDecimals};
  add_attention_steps(
      {.tokens = tokens,
       .queries =
           matrix({-0.84255448, 1.69118479,  0.16840026,  -0.33852743, -0.86381845, 0.87873148,
                   -0.43893728, 1.43357632,  -0.36916007, 0.99008703,  1.26395118,  1.25426793,
                   -1.14313892, 0.44420488,  -1.79295722, 0.08786969,  -0.93264763, 2.10190512,
                   -2.28282036, -0.28115302, 0.16496563,  -3.86691182, -0.36078562, -0.33304909,
                   0.70902575,  0.90507036,  -0.612227,   0.29584081,  -1.27537195, -0.53748187,
                   1.310467,    -1.05024303}),
       .keys = matrix({-0.13831726, 1.61754182,  -0.38570355, -0.06724541, -0.32901251, 0.43812086,
                       0.83568471,  -0.88561807, 0.44164728,  -1.12268517, -0.8300944,  -0.34109228,
                       0.3553728,   -0.61233613, -1.15187035, 0.1823838,   -0.55582771, 0.5160848,
                       -0.31469653, 2.05612718,  -1.4826562,  -2.49664229, 1.7230993,   1.99282134,
                       -0.05107385, -1.41396277, 0.06189906,  -0.12581689, 1.04094493,  -0.03749632,
                       0.53257072,  0.88856998}),
       .values =
           matrix({0.30484211,  1.62034263,  0.36740884, -0.98962018, 0.09368226,  -1.75405572,
                   0.03991657,  -0.06351192, -0.4504077, -0.10019523, -0.97578105, 0.76889551,
                   -0.87555141, -0.47108151, 0.580257,   0.06575303,  -0.65572362, 0.30078728,
                   -0.61406206, -1.07976532, 1.16208255, 0.20395302,  -0.33884634, 1.81876984,
                   0.79778368,  1.25778452,  0.05043346, 0.27569132,  0.53397663,  1.18342807,
                   0.12113994,  -0.43886321}),
       .divisor = std::sqrt(8.0),
       .divisor_text = "sqrt(8)",
       .allowed = torch::ones({4, 4}, torch::kBool).tril()},
      row, explanation);
  return explanation;
}

/// Attention of 50 tokens whose embeddings and projections are random, without and with scaling.
Explanation explain_embedding(const std::string& token) {
  constexpr int64_t kLength = 50;
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < kLength; ++i) tokens.push_back(std::to_string(i));
  const auto row = row_or(tokens, token, "0");
  Explanation explanation{"Attention of 50 tokens with random embeddings and projections",
                          tokens[row]};
  torch::manual_seed(0);
  const auto attention = [&](const char* prefix, int64_t width, int64_t head, bool scaled) {
    const torch::nn::Embedding embedding(100, width);
    const auto projection = [&] {
      const torch::nn::Linear linear(width, head);
      return Projection{linear->weight.t(), linear->bias};
    };
    AttentionInputs example{.tokens = tokens, .inputs = embedding->weight.slice(0, 0, kLength)};
    example.query = projection();
    example.key = projection();
    example.value = projection();
    if (scaled) {
      example.divisor = std::sqrt(static_cast<double>(width));
      example.divisor_text = fmt::format("sqrt({})", width);
    }
    example.prefix = prefix;
    add_attention_steps(example, row, explanation);
  };
  attention("unscaled", 10, 10, false);
  attention("scaled", 512, 100, true);
  return explanation;
}

/// The word bank beside stream and mud, and beside money and loan.
Explanation explain_bank(const std::string& token) {
  struct Sentence {
    const char* name;
    std::vector<std::string> tokens;
    torch::Tensor vectors;  // (3, 4)
  };
  const std::vector<Sentence> sentences{
      {"river",
       {"stream", "bank", "mud"},
       torch::tensor({{1.2, 0.0, 0.0, 0.3}, {0.8, 0.8, 0.2, 0.0}, {0.9, 0.0, 0.0, 0.9}},
                     torch::kFloat)},
      {"money",
       {"money", "bank", "loan"},
       torch::tensor({{0.0, 1.4, 0.0, 0.1}, {0.8, 0.8, 0.2, 0.0}, {0.0, 1.1, 0.0, 0.6}},
                     torch::kFloat)}};
  std::vector<std::string> known;
  for (const auto& sentence : sentences)
    known.insert(known.end(), sentence.tokens.begin(), sentence.tokens.end());
  const auto wanted = known[static_cast<std::size_t>(row_or(known, token, "bank"))];
  Explanation explanation{"The word bank in two contexts: stream bank mud, and money bank loan",
                          wanted, 3};

  const auto layer = torch::tensor(
      {{1.0, 0.2, 0.0}, {0.1, 1.1, 0.0}, {0.5, 0.5, 1.0}, {0.0, 0.3, 0.8}}, torch::kFloat);
  for (const auto& [name, tokens, vectors] : sentences) {
    const auto found = std::find(tokens.begin(), tokens.end(), wanted);
    TokenSteps steps(tokens, found == tokens.end() ? 1 : found - tokens.begin(), explanation);
    const auto output = vectors.mm(layer);
    steps.add({.title = "A layer without attention",
               .formula = "X W",
               .description = "A linear layer multiplies the vector of each token by the same "
                              "matrix W. It sees one token at a time.",
               .matrices = {steps.by_token("X", vectors, {}, "x"),
                            {"W", layer, numbered("x", 4), numbered("y", 3)},
                            steps.by_token("X W", output, {"linear", {vectors, layer}}, "y")},
               .calculation = fmt::format("X W[{}, y1] = {} = {}", steps.token(),
                                          steps.products(vectors[steps.row()], layer.select(1, 0)),
                                          steps.first(output)),
               .conclusion = "The output of 'bank' is the same in both contexts."},
              name);
  }
  const auto attend = [&](const std::string& kind, const std::string& introduction,
                          const std::optional<Projection>& query,
                          const std::optional<Projection>& key,
                          const std::optional<Projection>& value) {
    std::string before;  // output of the token in the sentence before, if it contains the token
    for (const auto& [name, tokens, vectors] : sentences) {
      const auto found = std::find(tokens.begin(), tokens.end(), wanted);
      AttentionInputs example{.tokens = tokens, .inputs = vectors};
      example.query = query;
      example.key = key;
      example.value = value;
      if (query) {
        const auto width = query->weight.size(1);
        example.divisor = std::sqrt(static_cast<double>(width));
        example.divisor_text = fmt::format("sqrt({})", width);
      }
      example.prefix = fmt::format("{}, {}", name, kind);
      const auto first = explanation.steps.size();
      const auto row = found == tokens.end() ? 1 : found - tokens.begin();
      const auto output = add_attention_steps(example, row, explanation);
      explanation.steps[first].description += " " + introduction;
      if (found == tokens.end()) continue;
      const TokenSteps steps(tokens, row, explanation);
      std::vector<std::string> numbers;
      for (int64_t i = 0; i < output.size(1); ++i)
        numbers.push_back(steps.text(output[row][i].item<double>()));
      const auto now = fmt::format("({})", fmt::join(numbers, ", "));
      if (!before.empty()) {
        explanation.steps.back().conclusion = fmt::format(
            "The output of '{0}' is {1} beside '{2}' and '{3}', but was {4} beside "
            "'{5}' and '{6}': with attention, it depends on the context.",
            wanted, now, tokens.front(), tokens.back(), before, sentences.front().tokens.front(),
            sentences.front().tokens.back());
      }
      before = now;
    }
  };
  attend("raw embeddings",
         "First without learned matrices: the vectors themselves are compared and added up.",
         std::nullopt, std::nullopt, std::nullopt);
  attend("three projections",
         "Now with three matrices, which turn each vector into a query, a key and a value. A model "
         "learns such matrices; these are chosen by hand.",
         Projection{torch::tensor({{1.0, 0.0}, {0.0, 1.0}, {0.2, 0.2}, {0.0, 0.0}}, torch::kFloat)},
         Projection{torch::tensor({{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}, {0.1, 0.1}}, torch::kFloat)},
         Projection{torch::tensor(
             {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}, {0.0, 0.0, 0.5}}, torch::kFloat)});
  torch::manual_seed(0);
  const Projection query{torch::rand({4, 3})};
  const Projection key{torch::rand({4, 3})};
  const Projection value{torch::rand({4, 3})};
  attend("random projections", "Now with random matrices, as before the first step of a training.",
         query, key, value);
  return explanation;
}

/// A transformer block with two heads and norms after the residual connections.
Explanation explain_blocks(const std::string& token) {
  constexpr int64_t kWidth = 8;
  constexpr int64_t kHeads = 2;
  constexpr int64_t kHeadWidth = kWidth / kHeads;
  const std::vector<std::string> tokens{"mary", "gave", "roses", "to", "susan"};
  const auto row = row_or(tokens, token, "gave");
  Explanation explanation{"A transformer block with two heads: mary gave roses to susan",
                          tokens[row]};
  torch::manual_seed(0);
  auto options = TransformerBlockOptions(kWidth, kHeads);
  options.residual().norm_order(NormOrder::post);
  TransformerBlock block(options);
  const auto x = torch::randn({static_cast<int64_t>(tokens.size()), kWidth});

  TokenSteps steps(tokens, row, explanation);
  const auto qkv = block->attention->qkv;
  const auto weights = qkv->weight.t().split(kWidth, 1);  // each (E, E)
  const auto biases = qkv->bias.split(kWidth);
  const auto attend = [&](const TokenMatrix& inputs) {
    std::vector<torch::Tensor> heads;
    for (int64_t head = 0; head < kHeads; ++head) {
      const auto projection = [&](std::size_t i) {
        const auto begin = head * kHeadWidth;
        return Projection{weights[i].slice(1, begin, begin + kHeadWidth),
                          biases[i].slice(0, begin, begin + kHeadWidth)};
      };
      AttentionInputs example{.tokens = tokens, .inputs = inputs.values};
      example.query = projection(0);
      example.key = projection(1);
      example.value = projection(2);
      example.divisor = std::sqrt(static_cast<double>(kHeadWidth));
      example.divisor_text = fmt::format("sqrt({})", kHeadWidth);
      example.prefix = fmt::format("head {}", head + 1);
      heads.push_back(add_attention_steps(example, row, explanation));
    }
    return add_joined_heads_steps(heads, block->attention->out, "attention", steps);
  };
  const auto feed = [&](const TokenMatrix& inputs) {
    return add_feed_forward_steps(block->feed_forward, inputs, "feed-forward", steps);
  };
  const auto output = add_block_steps(
      *block, NormOrder::post, {{"attention", "1", "R", attend}, {"feed-forward", "2", "B", feed}},
      {"X", x}, steps);
  TORCH_INTERNAL_ASSERT(output.values.allclose(block(x), 1e-4, 1e-5),
                        "the steps differ from the block");
  return explanation;
}

}  // namespace

const std::vector<ExplainExample>& explain_examples() {
  static const std::vector<ExplainExample> examples{
      {"sky", "every number of the attention of 'sky is blue'", explain_sky},
      {"numpy", "attention with a causal mask, from given queries, keys and values", explain_numpy},
      {"embedding", "attention of 50 random embeddings, without and with scaling",
       explain_embedding},
      {"bank", "why 'bank' needs attention: its vector in two contexts", explain_bank},
      {"blocks", "two heads, residual connections, norms and feed-forward of a block",
       explain_blocks}};
  return examples;
}

}  // namespace attend::app
