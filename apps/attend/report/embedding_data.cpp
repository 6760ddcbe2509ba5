#include "report/embedding_data.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/embedding_files.h"
#include "attend/train/embedding_snapshots.h"
#include "report/encoding.h"

#include <fmt/format.h>
#include <torch/nn/functional/normalization.h>
#include <torch/utils.h>

#include <algorithm>

namespace attend::app {
namespace {

constexpr int64_t kNearest = 5;
constexpr double kLargestInt16 = 32767;

/// Reads the embeddings (N, E) of a snapshot. Throws InputError if they have another shape than
/// `expected`.
torch::Tensor read_snapshot(const std::filesystem::path& path, at::IntArrayRef expected) {
  const auto tensors = load_safetensors(path).tensors;
  const auto found = tensors.find("embeddings");
  if (found == tensors.end() || found->second.sizes() != expected ||
      found->second.scalar_type() != torch::kFloat) {
    throw InputError(fmt::format("{}: damaged: expected the tensor 'embeddings' of shape ({}, {})",
                                 path.string(), expected[0], expected[1]));
  }
  return found->second;
}

/// Two principal components of a table, and the mean that is subtracted before the projection.
struct Components {
  torch::Tensor mean;                      // (E)
  torch::Tensor axes;                      // (2, E); rows of zeros if there are fewer components
  std::vector<double> explained_variance;  // fraction of the variance along each axis
};

/// `table`: (N, E), float64. The component of each axis with the largest absolute value is
/// positive.
Components principal_components(const torch::Tensor& table) {
  const auto mean = table.mean(0);
  const auto [u, singular, axes] = torch::linalg_svd(table - mean, /*full_matrices=*/false);
  const auto count = std::min<int64_t>(2, axes.size(0));
  auto found = torch::zeros({2, table.size(1)}, torch::kDouble);
  std::vector<double> explained{0.0, 0.0};
  const auto total = singular.square().sum().item<double>();
  for (int64_t i = 0; i < count; ++i) {
    const auto axis = axes[i];
    found[i] = axis * axis[axis.abs().argmax()].sign();
    if (total > 0)
      explained[static_cast<std::size_t>(i)] = singular[i].square().item<double>() / total;
  }
  return {mean, found, explained};
}

/// Returns the nearest other rows of each row, and their cosine similarities, both (N, K).
std::tuple<torch::Tensor, torch::Tensor> nearest(const torch::Tensor& table) {
  using torch::nn::functional::NormalizeFuncOptions;
  const auto unit = torch::nn::functional::normalize(table, NormalizeFuncOptions().dim(-1));
  auto similarity = unit.mm(unit.t());  // (N, N)
  similarity.fill_diagonal_(-2.0);      // less than any cosine
  const auto [values, ids] = similarity.topk(std::min(kNearest, table.size(0) - 1));
  return {ids, values};
}

template <typename Value>
std::vector<std::vector<Value>> rows_of(const torch::Tensor& matrix) {
  std::vector<std::vector<Value>> rows;
  for (const auto& row : matrix.unbind(0)) {
    const auto values = row.contiguous();
    rows.emplace_back(values.template const_data_ptr<Value>(),
                      values.template const_data_ptr<Value>() + values.numel());
  }
  return rows;
}

}  // namespace

nlohmann::ordered_json embeddings_of(const train::Run& run, const std::filesystem::path& directory,
                                     int64_t step, std::vector<std::string>& notes) {
  const torch::NoGradGuard no_grad;
  const auto weight = train::token_embedding_weight(run.model);
  const auto vocab_size = weight.size(0);
  const auto shown = weight.slice(0, 0, train::kSnapshotTokens);  // (N, E)
  if (shown.size(0) < vocab_size) {
    notes.push_back(fmt::format("Embeddings are shown for the first {} of {} tokens.",
                                shown.size(0), vocab_size));
  }
  std::vector<int64_t> steps;
  std::vector<torch::Tensor> tables;
  const auto add = [&](int64_t at, const torch::Tensor& table) {
    steps.push_back(at);
    tables.push_back(table.nan_to_num(0.0, 0.0, 0.0).to(torch::kDouble));
  };
  for (const auto& snapshot : train::embedding_snapshots(directory)) {
    if (snapshot.step < step) add(snapshot.step, read_snapshot(snapshot.path, shown.sizes()));
  }
  add(step, shown);
  const auto [mean, axes, explained] = principal_components(tables.back());
  const auto [ids, similarities] = nearest(tables.back());
  for (auto& table : tables) table = (table - mean).mm(axes.t());  // (N, 2)
  const auto points = torch::stack(tables);                        // (steps, N, 2)
  const auto scale = points.abs().max().item<double>();
  const auto bytes =
      (points * (scale > 0 ? kLargestInt16 / scale : 0.0)).round().to(torch::kShort).contiguous();
  std::vector<std::string> tokens;
  for (int64_t id = 0; id < shown.size(0); ++id)
    tokens.push_back(shortened(run.tokenizer->token(id), kMaxLabel));
  return {{"tokens", tokens},
          {"steps", steps},
          {"scale", scale},
          {"points", to_base64({static_cast<const char*>(bytes.const_data_ptr()),
                                static_cast<std::size_t>(bytes.nbytes())})},
          {"explained_variance", explained},
          {"neighbors", rows_of<int64_t>(ids)},
          {"similarities", rows_of<double>((similarities * 1e4).round() / 1e4)},
          {"vocab_size", vocab_size}};
}

}  // namespace attend::app
