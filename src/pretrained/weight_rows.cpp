#include "pretrained/weight_rows.h"

namespace attend {
namespace {

torch::Tensor undo(const WeightLayout& layout, const torch::Tensor& tensor) {
  switch (layout.kind) {
    case WeightLayout::rows:
      return tensor;
    case WeightLayout::transposed:
      return tensor.t();
    case WeightLayout::per_head_qkv:
      return tensor.unflatten(0, {layout.number, 3, -1}).transpose(0, 1).flatten(0, 2);
    case WeightLayout::unit_offset:
      return tensor.to(torch::kFloat) + 1;  // as transformers computes it
    case WeightLayout::skip_rows:
      return tensor.slice(0, layout.number);
  }
  TORCH_CHECK_VALUE(false, "unknown layout ", static_cast<int>(layout.kind));
}

/// The inverse of `undo`.
torch::Tensor apply(const WeightLayout& layout, const torch::Tensor& tensor) {
  switch (layout.kind) {
    case WeightLayout::rows:
      return tensor;
    case WeightLayout::transposed:
      return tensor.t();
    case WeightLayout::per_head_qkv:
      return tensor.unflatten(0, {3, layout.number, -1}).transpose(0, 1).flatten(0, 2);
    case WeightLayout::unit_offset:
      return (tensor.to(torch::kFloat) - 1).to(tensor.dtype());
    case WeightLayout::skip_rows:
      return torch::cat({tensor.new_zeros({layout.number, tensor.size(1)}), tensor});
  }
  TORCH_CHECK_VALUE(false, "unknown layout ", static_cast<int>(layout.kind));
}

/// Returns the number of rows of a weight that a part contains.
int64_t rows_of(const WeightLayout& layout, const std::vector<int64_t>& shape) {
  if (layout.kind == WeightLayout::transposed) return shape.back();
  return layout.kind == WeightLayout::skip_rows ? shape.front() - layout.number : shape.front();
}

}  // namespace

torch::Tensor WeightRow::join(const std::vector<torch::Tensor>& tensors) const {
  std::vector<torch::Tensor> undone;
  for (const auto& tensor : tensors) undone.push_back(undo(layout, tensor));
  return undone.size() == 1 ? undone.front() : torch::cat(undone);
}

std::vector<torch::Tensor> WeightRow::split(const torch::Tensor& weight) const {
  std::vector<int64_t> rows;
  for (const auto& part : parts) rows.push_back(rows_of(layout, part.shape));
  std::vector<torch::Tensor> tensors;
  for (const auto& piece : weight.split_with_sizes(rows)) tensors.push_back(apply(layout, piece));
  return tensors;
}

WeightRows WeightRows::inside(const std::string& ours, const std::string& theirs) const {
  auto rows = *this;
  rows.ours_ += ours;
  rows.theirs_ += theirs;
  return rows;
}

void WeightRows::linear(const std::string& ours, const std::vector<LinearPart>& parts, int64_t in,
                        bool bias, WeightLayout layout) const {
  const bool transposed = layout.kind == WeightLayout::transposed;
  WeightRow weight{ours_ + ours + ".weight", {}, layout};
  WeightRow biases{ours_ + ours + ".bias", {}, transposed ? WeightLayout{} : layout};
  for (const auto& [name, rows] : parts) {
    weight.parts.push_back(
        {theirs_ + name + ".weight", transposed ? std::vector{in, rows} : std::vector{rows, in}});
    biases.parts.push_back({theirs_ + name + ".bias", {rows}});
  }
  rows_->push_back(std::move(weight));
  if (bias) rows_->push_back(std::move(biases));
}

void WeightRows::norm(const std::string& ours, const std::string& theirs, int64_t width, bool bias,
                      WeightLayout layout) const {
  rows_->push_back({ours_ + ours + ".weight", {{theirs_ + theirs + ".weight", {width}}}, layout});
  if (bias) rows_->push_back({ours_ + ours + ".bias", {{theirs_ + theirs + ".bias", {width}}}, {}});
}

void WeightRows::vector(const std::string& ours, const std::string& theirs, int64_t width) const {
  rows_->push_back({ours_ + ours, {{theirs_ + theirs, {width}}}, {}});
}

void WeightRows::embedding(const std::string& ours, const std::string& theirs, int64_t count,
                           int64_t width, WeightLayout layout) const {
  const auto skipped = layout.kind == WeightLayout::skip_rows ? layout.number : 0;
  rows_->push_back({ours_ + ours + ".weight",
                    {{theirs_ + theirs + ".weight", {count + skipped, width}}},
                    layout});
}

}  // namespace attend
