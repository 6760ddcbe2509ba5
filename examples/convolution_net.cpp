// Trains a convolutional network with a custom `Objective` to remove noise from images. If the
// program is killed and started again, it resumes from the latest checkpoint, and the final weights
// are the same as without the interruption. Arguments: see vision_transformer.cpp.
#include "attend/export/torchscript.h"
#include "attend/train/training_run.h"

#include <fmt/format.h>
#include <torch/nn/modules.h>

#include <csignal>

using namespace attend::train;

/// Returns images (count, 1, 16, 16), each with one white rectangle on black.
torch::Tensor rectangles(int64_t count, torch::Generator generator) {
  const auto corners = torch::randint(16, {4, count, 1, 1, 1}, generator);
  const auto pixel = torch::arange(16);
  const auto between = [&](const torch::Tensor& a, const torch::Tensor& b) {
    return pixel.ge(a.minimum(b)).logical_and(pixel.le(a.maximum(b)));  // (count, 1, 1, 16)
  };
  const auto rows = between(corners[2], corners[3]).mT();  // (count, 1, 16, 1)
  return between(corners[0], corners[1]).logical_and(rows).to(torch::kFloat);
}

struct Denoising : Objective {
  torch::nn::Module& module() override { return *net; }
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
    const auto clean = rectangles(size, sampler.generator());
    return {.num_targets = size, .num_tokens = size, .loss = [this, clean]() -> TrainingLoss {
              const auto denoised = net->forward(clean + 0.5 * torch::randn_like(clean));
              return {(denoised - clean).square().mean({1, 2, 3}).sum()};  // sum over the images
            }};
  }
  Evaluation evaluate(const EvaluationOptions& /*options*/) override {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(0);
    const auto clean = rectangles(100, generator);
    const auto denoised = net->forward(clean + 0.5 * torch::randn(clean.sizes(), generator));
    return {.loss = (denoised - clean).square().mean().item<double>(), .num_targets = 100};
  }
  torch::nn::Sequential net{torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).padding(2)),
                            torch::nn::BatchNorm2d(16), torch::nn::Functional(torch::relu),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 1, 5).padding(2))};
};

int main(int argc, char** argv) {
  const std::filesystem::path dir = argc > 1 ? argv[1] : "runs/convolution_net";
  int64_t steps_left =
      argc > 2 ? std::stoll(argv[2]) : 0;  // steps until the program kills itself; 0 = never
  torch::manual_seed(0);
  const auto objective = std::make_shared<Denoising>();
  const TrainingConfig config{.max_steps = 60, .lr = 1e-2, .checkpoint_every = 9};
  TrainingRun run(dir, objective, config);
  const auto first_step = run.state().step;
  const auto result =
      run.train({.stop_requested = [&] { return --steps_left == 0 && std::raise(SIGKILL) != 0; }});
  run.finish(result);
  fmt::print("started from step {}, mean squared error {:.4f} (noisy images: 0.25)\n", first_step,
             result.state.best->loss);
  attend::export_torchscript(objective->net, torch::randn({2, 1, 16, 16}), dir / "model.pt",
                             {.input_names = {"images"}, .dynamic = {{0, 0, "batch"}}});
}
