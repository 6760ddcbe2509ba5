#pragma once

#include "attend/api.h"
#include "attend/train/batch_workers.h"
#include "attend/train/objective.h"

#include <torch/data/example.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Returns the next example of a stream; std::nullopt at its end.
using ExampleStream = std::function<std::optional<torch::data::Example<>>()>;

/// Trains any module on examples that come one after the other, such as the lines of a file or of a
/// decompressor: their number need not be known. A pass reads the stream from its beginning to its
/// end; the last batch of a pass is filled with the first examples of the next one. The stream is
/// read in order by one thread at a time: several workers do not read examples twice.
///
/// A resumed training opens the stream of its pass and skips as many examples as it has trained on
/// in this pass. Each of several processes reads the whole stream and trains on its part of each
/// batch.
///
///     auto open = [path](int64_t pass) -> ExampleStream {
///       auto file = std::make_shared<std::ifstream>(path);
///       return [file]() -> std::optional<torch::data::Example<>> {
///         std::string line;
///         if (!std::getline(*file, line)) return std::nullopt;
///         return example_of(line);
///       };
///     };
///     auto objective = std::make_shared<StreamObjective>(net.ptr(), open, validation, loss);
class ATTEND_API StreamObjective : public Objective {
 public:
  /// Opens the stream at its first example, for a pass over the data, counted from 0. The examples
  /// may depend on the pass, for example their order, but on nothing else that changes. The stream
  /// may be called by a thread of its own (`LoaderOptions::workers`).
  using OpenStream = std::function<ExampleStream(int64_t pass)>;
  /// Function that returns the loss of `data` (B, ...) and `target` (B, ...), summed over the B
  /// samples.
  using LossFunction =
      std::function<TrainingLoss(const torch::Tensor& data, const torch::Tensor& target)>;

  /// `validation`: examples of the evaluations, for example the first 1000 of another file. Throws
  /// c10::ValueError if an argument is null or empty, or an option out of range.
  StreamObjective(std::shared_ptr<torch::nn::Module> module, OpenStream open,
                  std::vector<torch::data::Example<>> validation, LossFunction loss,
                  LoaderOptions options = {});
  ~StreamObjective() override;

  torch::nn::Module& module() override { return *module_; }
  /// Rethrows what the stream has thrown. Throws c10::ValueError if a pass has no examples.
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override;
  Evaluation evaluate(const EvaluationOptions& options) override;
  void set_processes(std::shared_ptr<Processes> processes) override;
  /// Returns the number of validation examples, a few of them, and the first of the stream.
  std::map<std::string, torch::Tensor> data_samples() override;
  /// Returns the pass, and the number of its examples that were in batches.
  std::map<std::string, torch::Tensor> state() const override;
  void load_state(const std::map<std::string, torch::Tensor>& state) override;

 private:
  struct Reader;
  struct Position {
    int64_t pass = 0;
    int64_t examples = 0;
  };
  struct Read {
    std::vector<torch::data::Example<>> examples;
    Position end;  // of the last example
  };
  struct Started {
    std::shared_future<Read> read;
    std::shared_future<torch::data::Example<>> batch;  // empty for other processes
  };
  Started start(const BatchRequest& request, bool is_own);
  TrainingLoss loss(const torch::data::Example<>& batch) const;

  std::shared_ptr<torch::nn::Module> module_;
  OpenStream open_;
  std::vector<torch::data::Example<>> validation_;
  LossFunction loss_;
  LoaderOptions options_;
  std::shared_ptr<Processes> processes_ = single_process();
  Position position_;               // after the last batch
  std::shared_ptr<Reader> reader_;  // used by one thread at a time
  BatchesAhead<Started> ahead_;
  // Destroyed first: the workers wait for the thread that reads.
  BatchWorkers reading_;
  BatchWorkers workers_;
};

}  // namespace attend::train
