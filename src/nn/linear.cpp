#include "attend/nn/linear.h"

#include "nn/adapters.h"
#include "ops/autocast.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace attend {
namespace {

using Adapters = std::vector<std::shared_ptr<LoraAdapterImpl>>;

/// Returns the adapters whose products the weight does not contain, in the order of their rows.
Adapters separate_adapters(const torch::nn::LinearImpl& layer) {
  Adapters adapters;
  for (const auto& child : layer.children()) {
    auto adapter = std::dynamic_pointer_cast<LoraAdapterImpl>(child);
    if (adapter != nullptr && !adapter->in_weight) adapters.push_back(std::move(adapter));
  }
  std::ranges::sort(adapters, {}, [](const auto& each) { return each->options.first_row; });
  return adapters;
}

torch::Tensor with_products(const torch::Tensor& y, const torch::Tensor& x,
                            const Adapters& adapters, WeightRange range) {
  const auto part = [&](int64_t begin, int64_t end) {
    const bool is_all = begin == range.begin && end == range.end;
    return is_all ? y : y.slice(-1, begin - range.begin, end - range.begin);
  };
  // Converted once for all adapters; autocast converts by itself.
  const auto dtype = adapters.front()->A.scalar_type();
  const bool converts = x.scalar_type() != dtype && !autocast_dtype(x.device().type());
  const auto input = converts ? x.to(dtype) : x;
  std::vector<torch::Tensor> pieces;
  auto done = range.begin;
  for (const auto& adapter : adapters) {
    const auto& options = adapter->options;
    const auto begin = std::max(options.first_row, range.begin);
    const auto end = std::min(options.first_row + options.rows, range.end);
    if (begin >= end) continue;
    if (begin > done) pieces.push_back(part(done, begin));
    const auto sum = part(begin, end) +
                     adapter->product(input, begin - options.first_row, end - options.first_row);
    pieces.push_back(sum.scalar_type() == y.scalar_type() ? sum : sum.to(y.scalar_type()));
    done = end;
  }
  if (pieces.empty()) return y;
  if (done < range.end) pieces.push_back(part(done, range.end));
  return pieces.size() == 1 ? pieces.front() : torch::cat(pieces, -1);  // (..., N)
}

}  // namespace

bool has_adapters(const torch::nn::LinearImpl& layer) {
  const auto children = layer.children();
  return !children.empty() && !separate_adapters(layer).empty();
}

torch::Tensor add_adapters(const torch::Tensor& y, const torch::Tensor& x,
                           const torch::nn::LinearImpl& layer, WeightRange range) {
  const auto adapters = separate_adapters(layer);
  return adapters.empty() ? y : with_products(y, x, adapters, range);
}

torch::Tensor apply_linear_rows(const torch::Tensor& x, const torch::nn::Linear& layer,
                                WeightRange range) {
  const auto& bias = layer->bias;
  const auto y = apply_linear(x, layer->weight.slice(0, range.begin, range.end),
                              bias.defined() ? bias.slice(0, range.begin, range.end) : bias);
  return add_adapters(y, x, *layer, range);
}

torch::Tensor apply_linear(const torch::Tensor& x, const torch::nn::Linear& layer) {
  const auto y = apply_linear(x, layer->weight, layer->bias);
  return add_adapters(y, x, *layer, {0, layer->weight.size(0)});
}

torch::Tensor apply_linear(const torch::Tensor& x, const torch::nn::Linear& layer,
                           Activation activation) {
  if (has_adapters(*layer)) return activate(apply_linear(x, layer), activation);
  return apply_linear(x, layer->weight, layer->bias, activation);
}

}  // namespace attend
