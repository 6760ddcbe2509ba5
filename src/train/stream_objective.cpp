#include "attend/train/stream_objective.h"

#include "attend/input_error.h"
#include "attend/train/dataset_objective.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

constexpr const char* kPass = "pass";
constexpr const char* kExamples = "examples";

torch::data::Example<> stacked(std::vector<torch::data::Example<>> examples) {
  return torch::data::transforms::Stack<torch::data::Example<>>().apply_batch(std::move(examples));
}

}  // namespace

/// A stream and its position.
struct StreamObjective::Reader {
  OpenStream open;
  Position position;
  ExampleStream stream = {};        // null before `open`
  std::exception_ptr failure = {};  // of an earlier call: there is no example to continue with

  /// Returns the next examples of this pass and, after its end, the first of the next pass.
  Read read(int64_t size) {
    if (failure) std::rethrow_exception(failure);
    try {
      Read read;
      for (int64_t i = 0; i < size; ++i) read.examples.push_back(next());
      read.end = position;
      return read;
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
  }

 private:
  torch::data::Example<> next() {
    if (!stream) open_at_position();
    auto example = stream();
    if (!example) {
      TORCH_CHECK_VALUE(position.examples > 0, "the stream of pass ", position.pass,
                        " has no examples, expected at least 1");
      position = {.pass = position.pass + 1, .examples = 0};
      stream = nullptr;
      return next();
    }
    ++position.examples;
    return *std::move(example);
  }

  void open_at_position() {
    stream = open(position.pass);
    TORCH_CHECK_VALUE(stream != nullptr, "the stream of pass ", position.pass,
                      " is null, expected a function");
    for (int64_t i = 0; i < position.examples; ++i) {
      TORCH_CHECK_VALUE(stream(), "the stream of pass ", position.pass, " has ", i,
                        " examples, expected more than ", position.examples,
                        " as before the interruption");
    }
  }
};

StreamObjective::StreamObjective(std::shared_ptr<torch::nn::Module> module, OpenStream open,
                                 std::vector<torch::data::Example<>> validation, LossFunction loss,
                                 LoaderOptions options)
    : module_(std::move(module)),
      open_(std::move(open)),
      validation_(std::move(validation)),
      loss_(std::move(loss)),
      options_(std::move(options)),
      ahead_({.draw =
                  [this](int64_t size, Sampler& sampler) {
                    return BatchRequest{.size = size, .seed = draw_seed(options_, sampler)};
                  },
              .start = [this](const BatchRequest& request,
                              bool is_own) { return start(request, is_own); },
              .restart =
                  [this] {
                    workers_.drop();
                    reading_.drop();
                    reader_ = std::make_shared<Reader>(Reader{open_, position_});
                  }}),
      reading_(options_.workers > 0 ? 1 : 0),
      workers_(options_.workers) {
  check_loader_options(options_);
  TORCH_CHECK_VALUE(module_ != nullptr, "StreamObjective requires a module, found null");
  TORCH_CHECK_VALUE(open_ != nullptr, "StreamObjective requires a stream, found null");
  TORCH_CHECK_VALUE(loss_ != nullptr, "StreamObjective requires a loss function, found null");
  TORCH_CHECK_VALUE(!validation_.empty(),
                    "StreamObjective requires validation examples, found none");
}

StreamObjective::~StreamObjective() = default;

StreamObjective::Started StreamObjective::start(const BatchRequest& request, bool is_own) {
  Started started{.read = reading_.add([reader = reader_, size = request.size](std::size_t) {
                    return reader->read(size);
                  }),
                  .batch = {}};
  if (!is_own) return started;
  started.batch = workers_.add([this, read = started.read, request](std::size_t) {
    return transformed(options_, stacked(read.get().examples), request);
  });
  return started;
}

TrainingBatch StreamObjective::training_batch(int64_t size, Sampler& sampler) {
  const auto started = ahead_.next(size, sampler, *processes_, 2 * options_.workers);
  position_ = started.read.get().end;
  return {size, size, [this, batch = started.batch] { return loss(batch.get()); }};
}

Evaluation StreamObjective::evaluate(const EvaluationOptions& options) {
  return evaluate_samples(std::ssize(validation_), options, [&](const auto& indices) {
    std::vector<torch::data::Example<>> examples;
    for (const auto index : indices) examples.push_back(validation_[index]);
    return loss(stacked(std::move(examples)));
  });
}

void StreamObjective::set_processes(std::shared_ptr<Processes> processes) {
  processes_ = std::move(processes);
}

std::map<std::string, torch::Tensor> StreamObjective::data_samples() {
  Reader reader{open_, {}};
  const auto first = reader.read(1).examples.front();
  std::vector<torch::data::Example<>> some;
  for (const auto row : spread(std::ssize(validation_), 8))
    some.push_back(validation_[static_cast<std::size_t>(row)]);
  const auto validation = stacked(std::move(some));
  return {{"training.data", first.data},
          {"training.target", first.target},
          {"validation.size", torch::tensor(std::ssize(validation_))},
          {"validation.data", validation.data},
          {"validation.target", validation.target}};
}

std::map<std::string, torch::Tensor> StreamObjective::state() const {
  return {{kPass, torch::tensor(position_.pass)}, {kExamples, torch::tensor(position_.examples)}};
}

void StreamObjective::load_state(const std::map<std::string, torch::Tensor>& state) {
  const auto find = [&](const char* name) {
    const auto entry = state.find(name);
    const bool is_valid = entry != state.end() && entry->second.numel() == 1 &&
                          entry->second.scalar_type() == torch::kLong &&
                          entry->second.item<int64_t>() >= 0;
    if (!is_valid) throw InputError(fmt::format("the state of the stream has no valid '{}'", name));
    return entry->second.item<int64_t>();
  };
  position_ = {.pass = find(kPass), .examples = find(kExamples)};
  ahead_.clear();
}

TrainingLoss StreamObjective::loss(const torch::data::Example<>& batch) const {
  const auto device = module_->parameters().front().device();
  return loss_(batch.data.to(device), batch.target.to(device));
}

}  // namespace attend::train
