// Measures how the formats of prepare_for_inference change the loss of a trained language model:
//
//     bench_weight_formats RUN TEXT
//
// The tokens of the file TEXT are split into windows of max_seq_len tokens. The model predicts each
// token of a window from the tokens before it, one token per step, as in generation. Prints the
// mean loss and the perplexity for each format.
#include "attend/models/prepare_for_inference.h"
#include "attend/train/run_directory.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <variant>

namespace attend {
namespace {

/// Number of windows in a batch: products of more rows would use the original weights.
constexpr int64_t kRows = 8;
constexpr int64_t kBatches = 25;

/// Returns the mean loss of the predictions of the tokens 1, 2, ... of each row.
double mean_loss(LanguageModel& model, const torch::Tensor& windows) {
  double sum = 0;
  for (const auto& batch : windows.split(kRows)) {  // (kRows, T)
    auto cache = model->make_cache(batch.size(0));
    std::vector<torch::Tensor> logits;
    for (const auto& tokens : batch.slice(1, 0, -1).split(1, 1)) {
      logits.push_back(model->step(tokens, cache));  // (kRows, 1, V)
    }
    sum += torch::nn::functional::cross_entropy(
               torch::cat(logits, 1).flatten(0, 1), batch.slice(1, 1).flatten(),
               torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
               .item<double>();
  }
  return sum / static_cast<double>(windows.size(0) * (windows.size(1) - 1));
}

void run(const std::string& directory, const std::string& path) {
  const torch::NoGradGuard no_grad;
  auto run = train::RunDirectory::open(directory).load();
  auto* found = std::get_if<LanguageModel>(&run.model);
  if (found == nullptr) throw std::runtime_error(directory + ": expected a language_model");
  auto& model = *found;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto tokens = torch::tensor(run.tokenizer->encode(text), torch::kLong);
  const auto length = model->config.max_seq_len;
  const auto count = std::min(tokens.numel() / length, kRows * kBatches);
  if (count == 0) {
    throw std::runtime_error(fmt::format("{}: expected at least {} tokens (max_seq_len), found {}",
                                         path, length, tokens.numel()));
  }
  const auto windows = tokens.slice(0, 0, count * length).view({count, length});
  const double exact = mean_loss(model, windows);
  std::cout << fmt::format("{} tokens\n{:<9} loss {:.4f}  perplexity {:.4f}\n", windows.numel(),
                           "float32", exact, std::exp(exact));
  for (const auto format :
       {WeightFormat::packed, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    if (prepare_for_inference(model, format) == 0) {
      std::cout << fmt::format("{:<9} not supported\n", to_string(format));
      continue;
    }
    const double loss = mean_loss(model, windows);
    std::cout << fmt::format("{:<9} loss {:.4f}  perplexity {:.4f}  {:+.2f}%\n", to_string(format),
                             loss, std::exp(loss), 100 * std::expm1(loss - exact));
  }
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bench_weight_formats RUN TEXT\n";
    return 2;
  }
  try {
    attend::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "bench_weight_formats: " << error.what() << "\n";
    return 1;
  }
}
