#include "attend/models/flops.h"

#include "attend/nn/eval_guard.h"
#include "attend/ops/flop_counter.h"

namespace attend {
namespace {

/// `forward` gets one sequence (1, length).
template <typename Forward>
double measure(torch::nn::Module& model, int64_t context, int64_t length, const Forward& forward) {
  TORCH_CHECK_VALUE(length >= 1 && length <= context, "length (", length,
                    ") must be between 1 and the model's context (", context, ")");
  const EvalGuard eval(model);
  const torch::NoGradGuard no_grad;
  const auto device = model.parameters().at(0).device();
  const auto tokens = torch::zeros({1, length}, torch::dtype(torch::kLong).device(device));
  const FlopCounter counter;
  forward(tokens);
  return static_cast<double>(counter.flops()) / static_cast<double>(length);
}

}  // namespace

double flops_per_token(LanguageModel& model, int64_t length) {
  return measure(*model, model->config.max_seq_len, length,
                 [&](const auto& tokens) { model->forward(tokens); });
}

double flops_per_token(SequenceClassifier& model, int64_t length) {
  return measure(*model, model->config.max_seq_len, length,
                 [&](const auto& tokens) { model->forward(tokens); });
}

double flops_per_token(Seq2Seq& model, int64_t length) {
  return measure(*model, model->config.max_seq_len, length,
                 [&](const auto& tokens) { model->forward(tokens, tokens); });
}

}  // namespace attend
