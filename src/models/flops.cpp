#include "attend/models/flops.h"

#include "attend/ops/flop_counter.h"
#include "nn/check_eval.h"

namespace attend {
namespace {

/// Runs `forward` on tokens (1, length) and returns the counted operations per token.
template <typename Forward>
double measure(const torch::nn::Module& model, int64_t max_seq_len, int64_t length,
               Forward forward) {
  TORCH_CHECK_VALUE(length >= 1 && length <= max_seq_len, "length (", length,
                    ") must be in [1, max_seq_len (", max_seq_len, ")]");
  check_eval("flops_per_token", model);
  const torch::NoGradGuard no_grad;
  const auto device = model.parameters().at(0).device();
  const auto tokens = torch::zeros({1, length}, torch::dtype(torch::kLong).device(device));
  const FlopCounter counter;
  forward(tokens);
  return static_cast<double>(counter.flops()) / static_cast<double>(length);
}

}  // namespace

double flops_per_token(const LanguageModel& model, int64_t length) {
  return measure(
      *model, model->config.max_seq_len, length,
      [holder = LanguageModel(model)](const auto& tokens) mutable { holder->forward(tokens); });
}

double flops_per_token(const SequenceClassifier& model, int64_t length) {
  return measure(*model, model->config.max_seq_len, length,
                 [holder = SequenceClassifier(model)](const auto& tokens) mutable {
                   holder->forward(tokens);
                 });
}

double flops_per_token(const Seq2Seq& model, int64_t length) {
  return measure(
      *model, model->config.max_seq_len, length,
      [holder = Seq2Seq(model)](const auto& tokens) mutable { holder->forward(tokens, tokens); });
}

}  // namespace attend
