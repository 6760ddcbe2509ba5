#include "attend/export/torchscript.h"

#include "attend/io/files.h"
#include "attend/models/language_model.h"
#include "support/close.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

LanguageModel small_model() {
  return LanguageModel(
      LanguageModelConfig{.vocab_size = 11,
                          .context = 12,
                          .stack = {.layers = 2, .heads = 2, .embed_dim = 8, .dropout = 0.5}});
}

torch::Tensor tokens(int64_t batch, int64_t length) {
  return torch::randint(11, {batch, length}, torch::kLong);
}

/// Takes any length, but remembers the one that it was traced with.
struct FreezesItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    return x.cumsum(-1) / static_cast<double>(x.size(-1));
  }
};
TORCH_MODULE(FreezesItsLength);

struct ReshapesToItsLengthImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.view({-1, x.size(-1), 1}); }
};
TORCH_MODULE(ReshapesToItsLength);

struct ConvolutionNetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)).relu().mean(-1); }
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(2, 4, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
};
TORCH_MODULE(ConvolutionNet);

TEST(TorchScript, RunsAtShapesThatItWasNotTracedAt) {
  const TemporaryDirectory directory;
  auto model = small_model();
  const auto path = directory / "model.pt";
  const auto report =
      export_torchscript(model, tokens(2, 5), path, {.check_inputs = {{tokens(3, 12)}}});
  EXPECT_LE(report.max_difference, 1e-5);
  auto file = torch::jit::load(path.string());
  model->eval();
  for (const auto& [batch, length] : {std::pair{1, 1}, {4, 7}, {2, 12}, {0, 3}}) {
    const auto input = tokens(batch, length);
    EXPECT_TRUE(close(file.forward({input}).toTensor(), model(input), 1e-5)) << input.sizes();
  }
}

TEST(TorchScript, KeepsTheNamesOfTheStateDict) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m", {.check_inputs = {{tokens(1, 3)}}});
  const auto file = torch::jit::load((directory / "m").string());
  std::vector<std::string> names;
  for (const auto& item : file.named_parameters()) {
    names.push_back(item.name);
    EXPECT_TRUE(item.value.equal(model->named_parameters()[item.name])) << item.name;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(model->named_parameters().keys()));
}

TEST(TorchScript, DropsNothingAndGivesTheModesBack) {
  const TemporaryDirectory directory;
  auto model = small_model();  // dropout 0.5: two runs in training mode would differ
  model->train();
  model->decoder->blocks->eval();
  export_torchscript(model, tokens(2, 5), directory / "m", {.check_inputs = {{tokens(1, 3)}}});
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(model->embedding->is_training());
  EXPECT_FALSE(model->decoder->blocks[0]->is_training());
}

TEST(TorchScript, StoresInputNamesAndExtraFiles) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m",
                     {.input_names = {"tokens"},
                      .check_inputs = {{tokens(1, 3)}},
                      .extra_files = {{"tokenizer.json", "{}"}}});
  torch::jit::ExtraFilesMap extra{{"tokenizer.json", ""}};
  const auto file = torch::jit::load((directory / "m").string(), std::nullopt, extra);
  EXPECT_EQ(extra["tokenizer.json"], "{}");
  const auto& schema = file.get_method("forward").function().getSchema();
  EXPECT_EQ(schema.arguments().at(1).name(), "tokens");
}

TEST(TorchScript, RefusesAForwardThatFreezesASize) {
  const TemporaryDirectory directory;
  const auto x = torch::randn({2, 5});
  const TorchScriptOptions other_shape{.check_inputs = {{torch::randn({2, 6})}}};
  EXPECT_THAT([&] { export_torchscript(FreezesItsLength(), x, directory / "m", other_shape); },
              ThrowsMessage<std::runtime_error>(HasSubstr("differs from the module by")));
  EXPECT_THAT([&] { export_torchscript(ReshapesToItsLength(), x, directory / "m", other_shape); },
              ThrowsMessage<std::runtime_error>(HasSubstr("(2, 6)")));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file is left behind";
}

TEST(TorchScript, WantsInputsOfAnotherShape) {
  const TemporaryDirectory directory;
  auto model = small_model();
  EXPECT_THROW(export_torchscript(model, tokens(2, 5), directory / "m", {}), c10::ValueError);
}

TEST(TorchScript, TakesModulesThatAreNoTransformers) {
  const TemporaryDirectory directory;
  ConvolutionNet net;
  net->norm->running_mean.fill_(0.25);
  const auto path = directory / "net.pt";
  export_torchscript(net, torch::randn({2, 2, 9}), path,
                     {.check_inputs = {{torch::randn({3, 2, 20})}}});
  auto file = torch::jit::load(path.string());
  std::vector<std::string> buffers;
  for (const auto& item : file.named_buffers()) buffers.push_back(item.name);
  EXPECT_THAT(buffers, testing::UnorderedElementsAre("norm.running_mean", "norm.running_var",
                                                     "norm.num_batches_tracked"));
  const auto x = torch::randn({1, 2, 30});
  net->eval();
  EXPECT_TRUE(close(file.forward({x}).toTensor(), net(x), 1e-6));
}

TEST(TorchScript, TwoExportsAreTheSameBytes) {
  const TemporaryDirectory directory;
  auto model = small_model();
  for (const char* name : {"one.pt", "another.pt"}) {
    export_torchscript(model, torch::arange(6).view({2, 3}), directory / name,
                       {.check_inputs = {{tokens(1, 5)}}});
  }
  EXPECT_EQ(read_bytes(directory / "one.pt"), read_bytes(directory / "another.pt"));
}

TEST(TorchScript, CanBeTrainedFurther) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m", {.check_inputs = {{tokens(1, 3)}}});
  auto file = torch::jit::load((directory / "m").string());
  const auto input = tokens(2, 4);
  model->eval();
  model(input).square().sum().backward();
  file.forward({input}).toTensor().square().sum().backward();
  for (const auto& item : file.named_parameters()) {
    EXPECT_TRUE(close(item.value.grad(), model->named_parameters()[item.name].grad(), 1e-4))
        << item.name;
  }
}

}  // namespace
}  // namespace attend
