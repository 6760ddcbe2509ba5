// Uses the library attend::nn, with using-directives for the namespaces torch::nn and attend. Names
// that exist in both namespaces are qualified, as README.md says.
#include <attend/nn.h>

#include <torch/torch.h>

using namespace torch::nn;
using namespace attend;

struct ClassifierImpl : Module {
  ClassifierImpl()
      : embedding(register_module("embedding", TokenEmbedding(TokenEmbeddingOptions(10, 16, 8)))),
        block(register_module("block", TransformerBlock(TransformerBlockOptions(16, 2)))),
        encoder(
            register_module("encoder", attend::TransformerEncoder(attend::TransformerEncoderOptions(
                                           TransformerBlockOptions(16, 2), 1)))),
        norm(register_module("norm", RMSNorm(RMSNormOptions(16)))),
        dropout(register_module("dropout", Dropout(0.1))),
        head(register_module("head", Linear(16, 3))) {}

  torch::Tensor forward(const torch::Tensor& tokens) {
    const auto x = norm(encoder(block(embedding(tokens))));  // (B, T, E)
    return head(dropout(x).mean(1));                         // (B, C)
  }

  TokenEmbedding embedding;
  TransformerBlock block;
  attend::TransformerEncoder encoder;
  RMSNorm norm;
  Dropout dropout;
  Linear head;
};
TORCH_MODULE(Classifier);

// A using-declaration in a separate namespace also resolves the ambiguity.
namespace application {
using attend::MultiheadAttention;
using attend::MultiheadAttentionOptions;

MultiheadAttention make_attention() {
  return MultiheadAttention(MultiheadAttentionOptions(16, 2));
}
}  // namespace application

int main() {
  torch::manual_seed(0);
  Classifier model;
  const auto logits = model(torch::randint(10, {2, 5}, torch::kLong));
  torch::mse_loss(logits, torch::zeros_like(logits)).backward();
  const auto attended = application::make_attention()(torch::randn({2, 5, 16})).output;
  const auto norm = attend::LayerNorm(attend::LayerNormOptions(16))(attended);
  return logits.isfinite().all().item<bool>() && norm.size(-1) == 16 ? 0 : 1;
}
