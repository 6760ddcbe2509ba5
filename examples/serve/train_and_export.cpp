// Trains a language model on arithmetic progressions modulo 10 and exports it for serve.cpp and
// serve.py. Usage: train_and_export FOLDER
#include <attend/attend.h>

#include <torch/torch.h>

#include <iostream>

// Returns arithmetic progressions modulo 10 with random starts and random steps from 1 to 4. With
// start 8 and step 3, the progression is 8, 1, 4, 7, 0, ...
torch::Tensor draw_sequences(int64_t batch_size) {
  const auto starts = torch::randint(10, {batch_size, 1});
  const auto steps = torch::randint(1, 5, {batch_size, 1});
  return (starts + steps * torch::arange(12)).remainder(10);  // (B, 12)
}

int main(int argc, char** argv) {
  const std::filesystem::path folder(argc > 1 ? argv[1] : ".");
  torch::manual_seed(0);
  attend::LanguageModel model(
      attend::LanguageModelConfig{.vocab_size = 10, .max_seq_len = 12, .stack = {.embed_dim = 32}});
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 300; ++step) {
    const auto tokens = draw_sequences(32);              // (B, 12)
    const auto logits = model(tokens.narrow(1, 0, 11));  // (B, 11, 10)
    const auto loss =
        torch::cross_entropy_loss(logits.flatten(0, 1), tokens.narrow(1, 1, 11).flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 100 == 99) std::cout << "loss " << loss.item<double>() << "\n";
  }
  const auto plan = attend::plan_export(model);
  attend::export_torchscript(plan, folder / "model.pt");
  attend::export_pt2(plan, folder / "model.pt2");
  attend::export_onnx(plan, folder / "model.onnx");
  std::cout << "wrote model.pt, model.pt2 and model.onnx to " << folder << "\n";
}
