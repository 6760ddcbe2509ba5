// Trains a classifier on a stream: lines of a file, of which only one is in memory at a time. Two
// threads turn lines into batches while the model trains. If the program is killed and started
// again, it resumes from the latest checkpoint, and the final weights are the same as without the
// interruption. Arguments: the run directory and, for the test, the number of steps after which the
// program kills itself.
#include "attend/export/torchscript.h"
#include "attend/models/sequence_classifier.h"
#include "attend/train/loss.h"
#include "attend/train/stream_objective.h"
#include "attend/train/training_run.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

using namespace attend::train;

constexpr int64_t kLength = 12;

/// Writes random lines of 12 letters, a to d. The class is the last character: 1 if a line has more
/// letters a than letters b.
void write_lines(const std::filesystem::path& path, int64_t count, uint64_t seed) {
  std::ofstream file(path);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    std::string line;
    while (std::ssize(line) < kLength) line += static_cast<char>('a' + random() % 4);
    file << line << (std::ranges::count(line, 'a') > std::ranges::count(line, 'b')) << "\n";
  }
}

torch::data::Example<> example_of(const std::string& line) {
  auto letters = torch::empty({kLength}, torch::kLong);
  for (int64_t i = 0; i < kLength; ++i) letters[i] = line[static_cast<std::size_t>(i)] - 'a';
  return {letters, torch::tensor(int64_t{line.back() - '0'})};
}

/// Opens a file as a stream; each pass reads the same lines in the same order.
StreamObjective::OpenStream lines_of(const std::filesystem::path& path) {
  return [path](int64_t /*pass*/) -> ExampleStream {
    return
        [file = std::make_shared<std::ifstream>(path)]() -> std::optional<torch::data::Example<>> {
          std::string line;
          if (!std::getline(*file, line)) return std::nullopt;
          return example_of(line);
        };
  };
}

int main(int argc, char** argv) {
  const std::filesystem::path dir = argc > 1 ? argv[1] : "runs/stream";
  int64_t steps_left =
      argc > 2 ? std::stoll(argv[2]) : 0;  // steps until the program kills itself; 0 = never
  const auto data = std::filesystem::path(dir.string() + "-training.txt");
  const auto other = std::filesystem::path(dir.string() + "-validation.txt");
  std::filesystem::create_directories(std::filesystem::absolute(dir).parent_path());
  write_lines(data, 1000, 1);  // the steps need 60 * 64 examples: almost four passes
  write_lines(other, 200, 2);
  std::vector<torch::data::Example<>> validation;
  const auto next = lines_of(other)(0);
  while (const auto example = next()) validation.push_back(*example);
  torch::manual_seed(0);
  attend::SequenceClassifier model(attend::SequenceClassifierConfig{
      .vocab_size = 4,
      .num_classes = 2,
      .max_seq_len = kLength,
      .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 16}});
  // Replaces one letter of each line, differently in each pass.
  const auto transform = [](torch::data::Example<> batch, const torch::Generator& generator) {
    const auto rows = batch.data.size(0);
    batch.data.scatter_(1, torch::randint(kLength, {rows, 1}, generator, torch::kLong),
                        torch::randint(2, 4, {rows, 1}, generator, torch::kLong));
    return batch;
  };
  const auto objective = std::make_shared<StreamObjective>(
      model.ptr(), lines_of(data), validation,
      [model](const auto& x, const auto& y) mutable { return classification_loss(model(x), y); },
      LoaderOptions{.workers = 2, .transform = transform});
  TrainingRun run(dir, objective,
                  {.max_steps = 60, .lr = 1e-2, .warmup_steps = 5, .checkpoint_every = 9});
  const auto first_step = run.state().step;
  const auto result =
      run.train({.stop_requested = [&] { return --steps_left == 0 && std::raise(SIGKILL) != 0; }});
  run.finish(result);
  fmt::print("started from step {}, val accuracy {:.3f}\n", first_step,
             result.state.best->accuracy().value());
  attend::export_torchscript(model, torch::zeros({2, kLength}, torch::kLong), dir / "model.pt",
                             {.input_names = {"letters"}, .dynamic = {{0, 0, "batch"}}});
}
