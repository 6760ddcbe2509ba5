#include "attend/train/text_task.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/checksum.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

std::string read_text_of(const Recipe& recipe) {
  if (recipe.text.empty()) throw InputError("the task 'text' needs a file: give it with --text");
  return read_text(recipe.text);
}

}  // namespace

Recipe TextTask::defaults() {
  Recipe recipe;
  recipe.task = "text";
  recipe.stack().layers = 4;
  recipe.stack().embed_dim = 128;
  recipe.training.steps = 2000;
  recipe.training.batch = 12;
  recipe.training.lr = 2e-3;
  recipe.training.min_lr_ratio = 0.05;
  recipe.training.warmup = 100;
  recipe.training.eval_every = 500;
  return recipe;
}

TextTask::TextTask(const Recipe& recipe) : TextTask(recipe, read_text_of(recipe)) {}

TextTask::TextTask(const Recipe& recipe, const std::string& text)
    : vocabulary_(Vocabulary::of_characters(text)),
      context_(recipe.context()),
      checksum_(fmt::format("{:08x}", crc32c(text))) {
  auto ids = vocabulary_.encode(text);
  const auto tokens = torch::tensor(ids, torch::kLong);  // (characters)
  const int64_t characters = tokens.size(0);
  const int64_t learned = characters * 9 / 10;
  training_ = tokens.narrow(0, 0, learned);
  validation_ = tokens.narrow(0, learned, characters - learned);
  if (validation_.size(0) <= context_) {
    throw InputError(fmt::format(
        "{}: {} characters leave a validation part of {}, expected more than the context ({})",
        recipe.text, characters, validation_.size(0), context_));
  }
  // The first line, or the beginning of one that is longer than the model sees.
  ids.resize(static_cast<std::size_t>(context_));
  prompt_ = vocabulary_.decode(ids);
  prompt_ = prompt_.substr(0, std::min(prompt_.find('\n'), prompt_.size() - 1) + 1);
}

Batch TextTask::training_batch(int64_t size, Sampler& sampler) const {
  const auto starts = torch::randint(training_.size(0) - context_, {size, 1}, sampler.generator(),
                                     torch::TensorOptions(torch::kLong));
  const auto index = starts + torch::arange(context_);  // (B, T)
  return {training_.index({index}), training_.index({index + 1})};
}

std::vector<Batch> TextTask::validation_batches(int64_t size) const {
  const int64_t predicted = validation_.size(0) - 1;
  const auto inputs = validation_.narrow(0, 0, predicted);
  const auto targets = validation_.narrow(0, 1, predicted);
  std::vector<Batch> batches;
  const int64_t whole = predicted / context_ * context_;
  for (int64_t begin = 0; begin < whole; begin += size * context_) {
    const int64_t length = std::min(size * context_, whole - begin);
    batches.push_back({inputs.narrow(0, begin, length).view({-1, context_}),
                       targets.narrow(0, begin, length).view({-1, context_})});
  }
  if (whole < predicted) {
    batches.push_back({inputs.narrow(0, whole, predicted - whole).unsqueeze(0),
                       targets.narrow(0, whole, predicted - whole).unsqueeze(0)});
  }
  return batches;
}

}  // namespace attend::train
