// Self-attention step by step for the words "sky is blue": prints queries, keys, values, scores,
// weights and the output.
#include "attend/nn/self_attention.h"

#include <fmt/format.h>

namespace {

const char* const kWords[] = {"sky", "is", "blue"};

void print(const char* title, const torch::Tensor& rows) {
  fmt::print("{}\n", title);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    fmt::print("  {:<5}", kWords[i]);
    for (int64_t j = 0; j < rows.size(1); ++j) fmt::print(" {:7.4f}", rows[i][j].item<double>());
    fmt::print("\n");
  }
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

  const auto query = attention->query(x);  // (T, E)
  const auto key = attention->key(x);      // (T, E)
  const auto value = attention->value(x);  // (T, E)
  print("queries", query);
  print("keys", key);
  print("values", value);
  print("scores: query * key^T", query.mm(key.t()));
  print("scaled scores: divided by sqrt(2)", query.mm(key.t()) / std::sqrt(2.0));

  const auto [output, weights] = attention->forward(x, {.need_weights = true});
  print("attention weights: softmax of each row", weights);
  print("output: weights * values", output);
}
