// Self-attention step by step for the words "sky is blue": prints the inputs, the weight matrices,
// queries, keys, values, scores, weights and the output.
#include "attend/nn/self_attention.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace {

const std::vector<std::string> kWords{"sky", "is", "blue"};
const std::vector<std::string> kChannels{"channel 1", "channel 2"};

/// Prints a matrix with a label for each row and each column.
void print(const char* title, const torch::Tensor& matrix, const std::vector<std::string>& rows,
           const std::vector<std::string>& columns) {
  fmt::print("{}\n  {:<9}", title, "");
  for (const auto& column : columns) fmt::print("  {:>9}", column);
  fmt::print("\n");
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    fmt::print("  {:<9}", rows[static_cast<std::size_t>(i)]);
    for (int64_t j = 0; j < matrix.size(1); ++j) {
      fmt::print("  {:9.4f}", matrix[i][j].item<double>());
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

}  // namespace

int main() {
  const torch::NoGradGuard no_grad;
  const auto x = torch::tensor({{-1.0720, -0.5001}, {-0.0020, -0.4311}, {-0.0020, -0.4311}},
                               torch::kFloat);  // (T, E)

  attend::SelfAttention attention(attend::SelfAttentionOptions(2).bias(false));
  // Replaces the random weights with fixed weights of shape (out, in), as in torch::nn::Linear.
  attention->query->weight.copy_(torch::tensor({{-0.0271, -0.3940}, {-0.3840, -0.6610}}));
  attention->key->weight.copy_(torch::tensor({{-0.4109, -0.1162}, {0.5777, -0.1661}}));
  attention->value->weight.copy_(torch::tensor({{-0.2045, -0.1712}, {0.1210, -0.4462}}));

  const std::vector<std::string> inputs{"input 1", "input 2"};
  print("inputs x: one row per word", x, kWords, inputs);
  print("query weights: queries = x * weights^T", attention->query->weight, kChannels, inputs);
  print("key weights: keys = x * weights^T", attention->key->weight, kChannels, inputs);
  print("value weights: values = x * weights^T", attention->value->weight, kChannels, inputs);

  const auto query = attention->query(x);  // (T, E)
  const auto key = attention->key(x);      // (T, E)
  const auto value = attention->value(x);  // (T, E)
  print("queries", query, kWords, kChannels);
  print("keys", key, kWords, kChannels);
  print("values", value, kWords, kChannels);
  const auto scores = query.mm(key.t());  // (T, T)
  print("scores: queries * keys^T; a row per query, a column per key", scores, kWords, kWords);
  print("scaled scores: divided by sqrt(2)", scores / std::sqrt(2.0), kWords, kWords);

  const auto [output, weights] = attention->forward(x, {.need_weights = true});
  print("attention weights: softmax of each row of the scaled scores", weights, kWords, kWords);
  print("output: attention weights * values", output, kWords, kChannels);
}
