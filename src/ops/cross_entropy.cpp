#include "ops/cross_entropy.h"

#include "ops/cross_entropy_kernels.h"
#include "ops/fast_kernels.h"
#include "ops/in_parallel.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <vector>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor plain_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                  int64_t ignore_index) {
  // The same as cross_entropy, but on a GPU, log_softmax needs no copy of the logits in float32.
  const auto type = torch::promoteTypes(logits.scalar_type(), torch::kFloat);
  return at::nll_loss(torch::log_softmax(logits, -1, type), targets, /*weight=*/{},
                      at::Reduction::Sum, ignore_index);
}

bool is_supported(const torch::Tensor& logits, const torch::Tensor& targets, int64_t ignore_index) {
  const auto type = logits.scalar_type();
  if ((type != torch::kFloat && type != torch::kBFloat16) || logits.dim() != 2 ||
      logits.numel() == 0 || !logits.is_contiguous() || targets.scalar_type() != torch::kLong ||
      targets.dim() != 1 || targets.size(0) != logits.size(0) || !targets.is_contiguous()) {
    return false;
  }
  const auto* first = targets.const_data_ptr<int64_t>();
  // nll_loss throws for a target out of range.
  return std::all_of(first, first + targets.numel(), [&](int64_t target) {
    return target == ignore_index || (target >= 0 && target < logits.size(1));
  });
}

/// Calls `run(row)` for each row of `logits`, on LibTorch's threads.
template <typename Run>
void for_each_target(const torch::Tensor& logits, const Run& run) {
  constexpr int64_t kLogitsPerThread = 16 * 1024;
  in_parallel(logits.size(0), std::max<int64_t>(1, kLogitsPerThread / logits.size(1)),
              [&](int64_t begin, int64_t end) {
                for (auto row = begin; row < end; ++row) run(row);
              });
}

template <typename T>
const T* row_of(const torch::Tensor& logits, int64_t row) {
  return static_cast<const T*>(logits.const_data_ptr()) + row * logits.size(1);
}

float to_float(float x) {
  return x;
}

float to_float(BFloat16Bits x) {
  return c10::BFloat16(static_cast<uint16_t>(x), c10::BFloat16::from_bits());
}

struct SummedLoss {
  torch::Tensor sum;
  torch::Tensor normalizers;  // (N, 2): a LogNormalizer per row whose target is not ignored
};

template <typename T>
SummedLoss loss_of(const torch::Tensor& logits, const torch::Tensor& targets,
                   int64_t ignore_index) {
  const auto* target = targets.const_data_ptr<int64_t>();
  const auto normalizers = torch::empty({logits.size(0), 2}, torch::kFloat);
  auto* normalizer = static_cast<LogNormalizer*>(normalizers.mutable_data_ptr());
  std::vector<float> losses(static_cast<std::size_t>(logits.size(0)));
  for_each_target(logits, [&](int64_t row) {
    if (target[row] == ignore_index) return;
    const auto* x = row_of<T>(logits, row);
    normalizer[row] = normalizer_of(x, logits.size(1));
    losses[static_cast<std::size_t>(row)] =
        normalizer[row].log_sum - (to_float(x[target[row]]) - normalizer[row].largest);
  });
  double sum = 0;
  for (const auto loss : losses) sum += loss;
  return {torch::scalar_tensor(sum, torch::kFloat), normalizers};
}

SummedLoss run_kernel(const torch::Tensor& logits, const torch::Tensor& targets,
                      int64_t ignore_index) {
  RECORD_FUNCTION("attend::cross_entropy", c10::ArrayRef<const c10::IValue>({logits, targets}));
  return logits.scalar_type() == torch::kFloat
             ? loss_of<float>(logits, targets, ignore_index)
             : loss_of<BFloat16Bits>(logits, targets, ignore_index);
}

template <typename T>
torch::Tensor gradient_of(const torch::Tensor& logits, const torch::Tensor& targets,
                          const torch::Tensor& normalizers, int64_t ignore_index, float factor) {
  auto gradient = torch::empty_like(logits);
  const auto count = logits.size(1);
  const auto* target = targets.const_data_ptr<int64_t>();
  const auto* normalizer = static_cast<const LogNormalizer*>(normalizers.const_data_ptr());
  auto* all = static_cast<T*>(gradient.mutable_data_ptr());
  for_each_target(logits, [&](int64_t row) {
    if (target[row] == ignore_index) {
      std::fill_n(all + row * count, count, T{});
      return;
    }
    compute(LogitsGradient<T>{.logits = row_of<T>(logits, row),
                              .gradient = all + row * count,
                              .count = count,
                              .target = target[row],
                              .normalizer = normalizer[row],
                              .factor = factor});
  });
  return gradient;
}

/// The gradient of `plain_cross_entropy` times `factor`, differentiable if gradients are computed.
torch::Tensor plain_gradient(const torch::Tensor& logits, const torch::Tensor& targets,
                             int64_t ignore_index, const torch::Tensor& factor) {
  const bool create_graph = torch::GradMode::is_enabled();
  const torch::AutoGradMode with_gradients(true);
  const auto view = logits.view_as(logits);  // without hooks, which run for the result, too
  const auto loss = plain_cross_entropy(view, targets, ignore_index);
  return torch::autograd::grad({loss}, {view}, {factor}, /*retain_graph=*/create_graph,
                               create_graph)[0];
}

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, int64_t ignore_index) {
    const auto loss = run_kernel(logits, targets, ignore_index);
    context->save_for_backward({logits, targets, loss.normalizers});
    context->saved_data["ignore_index"] = ignore_index;
    return loss.sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const auto& logits = saved[0];
    const auto& targets = saved[1];
    const auto ignore_index = context->saved_data["ignore_index"].toInt();
    const auto& factor = output_gradients[0];
    if (torch::GradMode::is_enabled() || !can_use_fast_kernels({&factor})) {
      return {plain_gradient(logits, targets, ignore_index, factor), {}, {}};
    }
    RECORD_FUNCTION("attend::cross_entropy_backward",
                    c10::ArrayRef<const c10::IValue>({logits, targets}));
    const auto gradient =
        logits.scalar_type() == torch::kFloat ? gradient_of<float> : gradient_of<BFloat16Bits>;
    return {gradient(logits, targets, saved[2], ignore_index, factor.item<float>()), {}, {}};
  }
};

/// The loss of logits in half precision with operators of LibTorch, as on a GPU. With `nll_loss`,
/// the log-probabilities in float32 would be kept for the backward pass, which would read them
/// twice, together with a gradient in float32 that is zero except at the targets.
struct HalfCrossEntropyFunction : torch::autograd::Function<HalfCrossEntropyFunction> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, int64_t ignore_index) {
    const auto ignored = targets.eq(ignore_index).unsqueeze(1);                         // (N, 1)
    const auto index = targets.unsqueeze(1).masked_fill(ignored, 0);                    // (N, 1)
    const auto chosen = torch::log_softmax(logits, 1, torch::kFloat).gather(1, index);  // (N, 1)
    context->save_for_backward({logits, targets, index, chosen, ignored.logical_not()});
    context->saved_data["ignore_index"] = ignore_index;
    return -chosen.masked_fill(ignored, 0).sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const auto& logits = saved[0];
    const auto& factor = output_gradients[0];
    if (torch::GradMode::is_enabled()) {
      const auto ignore_index = context->saved_data["ignore_index"].toInt();
      return {plain_gradient(logits, saved[1], ignore_index, factor), {}, {}};
    }
    auto gradient = torch::softmax(logits, 1);
    // The probability of a target minus 1, which half precision would round to 0 near 1.
    gradient.scatter_(1, saved[2], saved[3].expm1().to(gradient.scalar_type()));
    // The product is computed in float32: a factor without dimensions would be rounded to the dtype
    // of the gradient.
    gradient.mul_(factor * saved[4]);
    return {gradient, {}, {}};
  }
};

/// Returns true if `HalfCrossEntropyFunction` supports the tensors.
bool is_half(const torch::Tensor& logits, const torch::Tensor& targets) {
  return at::isReducedFloatingType(logits.scalar_type()) && logits.dim() == 2 &&
         targets.scalar_type() == torch::kLong && targets.device() == logits.device() &&
         targets.dim() == 1 && targets.size(0) == logits.size(0) && logits.numel() > 0 &&
         !torch::jit::tracer::isTracing() && !in_functorch_transform() &&
         !at::isTensorSubclassLike(logits) && !is_dual(logits);
}

}  // namespace

torch::Tensor summed_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                   int64_t ignore_index) {
  if (can_use_fast_kernels({&logits, &targets}) && is_supported(logits, targets, ignore_index)) {
    return computes_gradients({&logits})
               ? CrossEntropyFunction::apply(logits, targets, ignore_index)
               : run_kernel(logits, targets, ignore_index).sum;
  }
  return fast_kernels_are_enabled() && is_half(logits, targets)
             ? HalfCrossEntropyFunction::apply(logits, targets, ignore_index)
             : plain_cross_entropy(logits, targets, ignore_index);
}

}  // namespace attend
