// Self-attention number by number, for the three words "sky is blue": what each step computes is
// printed. The numbers are those of the first teaching text that this library grew from.
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
                               torch::kFloat);  // (T, E): a vector for each word

  attend::SelfAttention attention(attend::SelfAttentionOptions(2).bias(false));
  // The text multiplies x by a matrix; a Linear holds its transpose.
  attention->query->weight.copy_(torch::tensor({{-0.0271, -0.3940}, {-0.3840, -0.6610}}));
  attention->key->weight.copy_(torch::tensor({{-0.4109, -0.1162}, {0.5777, -0.1661}}));
  attention->value->weight.copy_(torch::tensor({{-0.2045, -0.1712}, {0.1210, -0.4462}}));

  const auto query = attention->query(x);  // what each word looks for
  const auto key = attention->key(x);      // what each word offers
  const auto value = attention->value(x);  // what it gives to those who attend to it
  print("queries", query);
  print("keys", key);
  print("values", value);
  print("scores: query times key", query.mm(key.t()));
  print("scaled by 1/sqrt(2)", query.mm(key.t()) / std::sqrt(2.0));

  const auto [output, weights] = attention->forward(x, {.need_weights = true});
  print("weights: softmax of each row", weights);
  print("output: weighted mean of the values", output);
}
