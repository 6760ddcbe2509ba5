#include "attend/ops/flop_counter.h"

#include "ops/thread_scope.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace attend {

struct FlopCount {
  int64_t flops = 0;
};

namespace {

/// Handle of the callback on this thread. The callback updates all counters of the thread.
thread_local at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
/// Number of operators in `kCounted` that are running on this thread. If this number is greater
/// than 1, each operator was called by the operator before it. Only the first one is counted.
thread_local int running_operators = 0;

using Inputs = c10::ArrayRef<const c10::IValue>;

/// FLOPs of the product of `a` and `b`: (..., T, K) times (..., K, N), (..., T, K) times (K), or
/// the dot product (K) times (K). `a` must have all leading dimensions of the result.
int64_t product_flops(const torch::Tensor& a, const torch::Tensor& b) {
  const int64_t columns = b.dim() == 1 ? 1 : b.size(-1);
  return 2 * a.numel() * columns;
}

/// Number of (T, D) matrices after the leading dimensions of the tensors are broadcast. In
/// grouped-query attention, the query heads are counted.
int64_t broadcast_matrices(const std::array<torch::Tensor, 3>& tensors) {
  int64_t dims = 0;
  for (const auto& tensor : tensors) dims = std::max(dims, tensor.dim());
  int64_t count = 1;
  for (int64_t from_end = 3; from_end <= dims; ++from_end) {
    int64_t size = 0;
    for (const auto& tensor : tensors) {
      if (tensor.dim() >= from_end) size = std::max(size, tensor.size(-from_end));
    }
    count *= size;
  }
  return count;
}

int64_t attention_flops(const torch::Tensor& query, const torch::Tensor& key,
                        const torch::Tensor& value) {
  const int64_t pairs = broadcast_matrices({{query, key, value}}) * query.size(-2) * key.size(-2);
  return 2 * pairs * (query.size(-1) + value.size(-1));
}

/// FLOPs of a product of the first argument (..., K) with a weight whose first dimension is N.
int64_t linear_flops(Inputs in) {
  return 2 * in[0].toTensor().numel() * in[1].toTensor().size(0);
}

/// FLOPs of attention of the first three arguments.
int64_t call_flops(Inputs in) {
  return attention_flops(in[0].toTensor(), in[1].toTensor(), in[2].toTensor());
}

/// FLOPs of the products of the rows of the first argument (..., E) with two weights.
int64_t two_weights_flops(Inputs in) {
  const auto rows = in[0].toTensor().numel() / in[0].toTensor().size(-1);
  return 2 * rows * (in[1].toTensor().numel() + in[2].toTensor().numel());
}

/// As above, for the weights of self-attention. The last argument is the number of keys.
int64_t attention_step_flops(Inputs in) {
  const auto batch = in[0].toTensor().size(0);
  return two_weights_flops(in) + 4 * batch * in[2].toTensor().size(1) * in[3].toInt();
}

struct CountedOperator {
  std::string_view name;
  int64_t (*flops)(Inputs);
};

constexpr std::array<CountedOperator, 16> kCounted{{
    {"aten::mm", [](Inputs in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::bmm", [](Inputs in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::mv", [](Inputs in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::dot", [](Inputs in) { return product_flops(in[0].toTensor(), in[1].toTensor()); }},
    {"aten::addmm", [](Inputs in) { return product_flops(in[1].toTensor(), in[2].toTensor()); }},
    {"aten::baddbmm", [](Inputs in) { return product_flops(in[1].toTensor(), in[2].toTensor()); }},
    {"aten::addmv", [](Inputs in) { return product_flops(in[1].toTensor(), in[2].toTensor()); }},
    {"mkldnn::_linear_pointwise", linear_flops},
    {"attend::float_product", linear_flops},
    {"attend::int8_product", linear_flops},
    {"attend::int4_product", linear_flops},
    {"attend::one_query_attention", call_flops},
    {"attend::attention_step", attention_step_flops},
    {"attend::feed_forward_step", two_weights_flops},
    {"aten::scaled_dot_product_attention", call_flops},
    {"attend::short_attention", call_flops},
}};

const CountedOperator* find_counted(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto* found = std::find_if(kCounted.begin(), kCounted.end(),
                                   [&](const auto& counted) { return counted.name == name; });
  return found == kCounted.end() ? nullptr : found;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  const auto* counted = find_counted(function);
  if (counted == nullptr || running_operators++ > 0) return nullptr;
  const int64_t flops = counted->flops(function.inputs());
  ThreadScope<FlopCount>::for_each([&](FlopCount& count) { count.flops += flops; });
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (find_counted(function) != nullptr) --running_operators;
}

}  // namespace

struct FlopCounter::Scope : ThreadScope<FlopCount> {};

FlopCounter::FlopCounter() : scope_(std::make_unique<Scope>()) {
  if (callback != at::INVALID_CALLBACK_HANDLE) return;
  callback = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                            .needsInputs(true)
                                            .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  scope_.reset();
  // `callback` belongs to the current thread. If the counter was created on another thread, the
  // callback of that thread stays until a counter is destroyed on that thread and the thread has no
  // other counters.
  if (callback == at::INVALID_CALLBACK_HANDLE || Scope::innermost() != nullptr) return;
  at::removeCallback(callback);
  callback = at::INVALID_CALLBACK_HANDLE;
}

int64_t FlopCounter::flops() const {
  return scope_->state().flops;
}

}  // namespace attend
