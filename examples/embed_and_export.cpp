// Trains a custom module that contains a TransformerBlock, and exports it to TorchScript. Programs
// that do not use this library can load the file with torch.jit.load (Python) or torch::jit::load
// (C++).
#include "attend/export/torchscript.h"
#include "attend/nn/transformer_block.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>
#include <torch/script.h>

#include <filesystem>

// Predicts the position of the largest number in a sequence: one logit per position.
struct FindLargestImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& numbers) {           // (B, T)
    const auto x = block->forward(embed(numbers.unsqueeze(-1)));  // (B, T, 32)
    return head(x).squeeze(-1);                                   // (B, T)
  }
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(1, 32));
  attend::TransformerBlock block = register_module("block", attend::TransformerBlock(32, 4));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(32, 1));
};
TORCH_MODULE(FindLargest);

int main() {
  torch::manual_seed(0);
  FindLargest model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  double first_loss = 0;
  double loss_value = 0;
  for (int step = 0; step < 150; ++step) {
    const auto numbers = torch::randn({64, 6});
    const auto loss = torch::nn::functional::cross_entropy(model(numbers), numbers.argmax(-1));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss_value = loss.item<double>();
    if (step == 0) first_loss = loss_value;
  }
  fmt::print("loss {:.2f} -> {:.2f}\n", first_loss, loss_value);

  const auto path = std::filesystem::temp_directory_path() / "find_largest.pt";
  attend::export_torchscript(
      model, torch::randn({2, 6}), path,
      {.input_names = {"numbers"}, .dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
  auto file = torch::jit::load(path.string());
  const auto numbers = torch::randn({5, 11});
  model->eval();
  const bool equal = file.forward({numbers}).toTensor().allclose(model(numbers), 1e-5, 1e-5);
  fmt::print("outputs of exported file and module are {} for shape (5, 11)\n",
             equal ? "equal" : "DIFFERENT");
  std::filesystem::remove(path);
  return equal ? 0 : 1;
}
