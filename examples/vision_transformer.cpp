// Trains a Vision Transformer (Dosovitskiy et al. 2021) on generated images. If the program is
// killed and started again, it resumes from the latest checkpoint, and the final weights are the
// same as without the interruption. Arguments: the run directory and, for the test, the number of
// steps after which the program kills itself.
#include "attend/export/torchscript.h"
#include "attend/nn/patch_embedding.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/train/dataset_objective.h"
#include "attend/train/training_run.h"

#include <fmt/format.h>
#include <torch/nn/modules/linear.h>

#include <csignal>

using namespace attend::train;

/// Noisy images (1, 16, 16) with stripes. Labels: 0 = horizontal, 1 = vertical, 2 = diagonal.
struct Stripes : torch::data::datasets::Dataset<Stripes> {
  explicit Stripes(uint64_t seed) : seed(seed) {}
  torch::data::Example<> get(std::size_t index) override {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed + index);
    const auto label = torch::tensor(static_cast<int64_t>(index % 3));
    const auto pixel = torch::arange(16), phase = torch::randint(4, {1}, generator);
    const auto wave = pixel.view({16, 1}) * label.ne(1) + pixel * label.ne(0) + phase;  // (16, 16)
    return {wave.remainder(4).lt(2) + 0.5 * torch::randn({1, 16, 16}, generator), label};
  }
  std::optional<std::size_t> size() const override { return 300; }
  uint64_t seed;
};

struct VisionTransformerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) {  // (B, 1, 16, 16)
    const auto x = encoder(embedding(images));          // (B, 17, 32): class token, 4x4 patches
    return head(x.select(1, 0));                        // (B, 3)
  }
  attend::PatchEmbedding embedding = register_module(
      "embedding",
      attend::PatchEmbedding(attend::PatchEmbeddingOptions(16, 4, 1, 32).class_token(true)));
  attend::TransformerEncoder encoder = register_module(
      "encoder", attend::TransformerEncoder(attend::TransformerEncoderOptions({32, 4}, 2)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(32, 3));
};
TORCH_MODULE(VisionTransformer);

int main(int argc, char** argv) {
  const std::filesystem::path dir = argc > 1 ? argv[1] : "runs/vision_transformer";
  int64_t steps_left =
      argc > 2 ? std::stoll(argv[2]) : 0;  // steps until the program kills itself; 0 = never
  torch::manual_seed(0);
  VisionTransformer model;
  const auto objective = std::make_shared<DatasetObjective<Stripes>>(
      model.ptr(), Stripes(0), Stripes(1000),
      [=](auto& x, auto& y) mutable { return classification_loss(model(x), y); });
  TrainingRun run(dir, objective, {.max_steps = 60, .checkpoint_every = 9});
  const auto first_step = run.state().step;
  const auto result =
      run.train({.stop_requested = [&] { return --steps_left == 0 && std::raise(SIGKILL) != 0; }});
  run.finish(result);
  fmt::print("started from step {}, val accuracy {:.3f}\n", first_step,
             result.state.best->accuracy().value());
  attend::export_torchscript(model, torch::randn({2, 1, 16, 16}), dir / "model.pt",
                             {.input_names = {"images"}, .dynamic = {{0, 0, "batch"}}});
}
