// Trains a language model to go on counting by steps, and exports it: train_and_export FOLDER
// serve.py and serve.cpp, beside this file, answer with what it writes.
#include <attend/attend.h>

#include <torch/torch.h>

#include <iostream>

// Rows that count by 1 to 4, from anywhere, without the tens: 8, 1, 4, 7, 0, ...
torch::Tensor draw_rows(int64_t count) {
  const auto starts = torch::randint(10, {count, 1});
  const auto steps = torch::randint(1, 5, {count, 1});
  return (starts + steps * torch::arange(12)).remainder(10);  // (B, 12)
}

int main(int argc, char** argv) {
  const std::filesystem::path folder(argc > 1 ? argv[1] : ".");
  torch::manual_seed(0);
  attend::LanguageModel model(
      attend::LanguageModelConfig{.vocab_size = 10, .max_seq_len = 12, .stack = {.embed_dim = 32}});
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 300; ++step) {
    const auto rows = draw_rows(32);
    const auto logits = model(rows.narrow(1, 0, 11));  // (B, 11, 10)
    const auto loss =
        torch::cross_entropy_loss(logits.flatten(0, 1), rows.narrow(1, 1, 11).flatten());
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
