// Trains a custom module on a dataset of torch::data, with one process or with several:
//
//   example_train_in_processes runs/images
//   torchrun --nproc-per-node 2 --no-python example_train_in_processes runs/images
#include <attend/distributed.h>
#include <attend/train.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace {

/// Dark (0) and bright (1) images.
struct Images : torch::data::datasets::Dataset<Images> {
  explicit Images(int64_t count) : y(torch::randint(2, {count}, torch::kLong)) {
    x = torch::randn({count, 1, 8, 8}) + y.view({-1, 1, 1, 1});
  }
  torch::data::Example<> get(size_t i) override { return {x[i], y[i]}; }
  std::optional<size_t> size() const override { return y.size(0); }
  torch::Tensor y, x;
};

void train(const std::string& directory,
           const std::shared_ptr<attend::train::Processes>& processes) {
  torch::manual_seed(0);  // all processes have the same data
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(64, 2));
  const auto objective = std::make_shared<attend::train::DatasetObjective<Images>>(
      net.ptr(), Images(1000), Images(200), [net](auto& x, auto& y) mutable {
        return attend::train::classification_loss(net->forward(x), y);
      });
  attend::train::TrainingRun run(directory, objective, {.max_steps = 200},
                                 {.processes = processes});
  const auto best = run.finish(run.train()).state.best.value();
  if (processes->rank() == 0) {
    fmt::print("processes {}, loss {:.3f}, correct {} of {}\n", processes->world_size(), best.loss,
               best.exact_match.correct, best.exact_match.total);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::shared_ptr<attend::train::Processes> processes;  // null until they are connected
  try {
    processes = attend::distributed::init();
    train(argc > 1 ? argv[1] : "runs/images", processes);
  } catch (const std::exception& error) {
    // The other processes end too, with this message. False if rank 0 prints it.
    if (!processes || processes->end_with_error(error.what()))
      fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
