#include "attend/export/torchscript.h"

#include "attend/models/language_model.h"
#include "io/files.h"
#include "support/close.h"
#include "support/optimized_forward.h"
#include "support/specializing_modules.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <bit>

namespace attend {
namespace {

LanguageModel small_model() {
  return LanguageModel(LanguageModelConfig{
      .vocab_size = 11,
      .max_seq_len = 12,
      .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8, .dropout = 0.5}});
}

torch::Tensor tokens(int64_t batch, int64_t length) {
  return torch::randint(11, {batch, length}, torch::kLong);
}

const std::vector<DynamicDimension> kBatchAndLength{{0, 0, "batch"}, {0, 1, "length", 1, 12}};

struct ConvolutionNetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)).relu().mean(-1); }
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(2, 4, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
};
TORCH_MODULE(ConvolutionNet);

TEST(TorchScript, RunsAtOtherShapes) {
  const TemporaryDirectory directory;
  auto model = small_model();
  const auto path = directory / "model.pt";
  const auto report = export_torchscript(model, tokens(2, 5), path, {.dynamic = kBatchAndLength});
  EXPECT_LE(report.max_abs_diff, 1e-5);
  auto file = torch::jit::load(path.string());
  model->eval();
  for (const auto& [batch, length] : {std::pair{1, 1}, {4, 7}, {2, 12}, {0, 3}}) {
    const auto input = tokens(batch, length);
    EXPECT_TRUE(close(file.forward({input}).toTensor(), model(input), 1e-5)) << input.sizes();
  }
}

TEST(TorchScript, ReplacedSubmoduleThrows) {
  const TemporaryDirectory directory;
  auto model = small_model();
  model->eval();
  model->decoder->replace_module("norm", model->decoder->norm.ptr()->clone())->eval();
  EXPECT_THAT([&] { export_torchscript(model, tokens(2, 5), directory / "model.pt", {}); },
              throws<c10::ValueError>("submodule norm of attend::TransformerEncoderImpl"));
}

TEST(TorchScript, KeepsStateDictNames) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m", {.dynamic = kBatchAndLength});
  const auto file = torch::jit::load((directory / "m").string());
  std::vector<std::string> names;
  for (const auto& item : file.named_parameters()) {
    names.push_back(item.name);
    EXPECT_TRUE(item.value.equal(model->named_parameters()[item.name])) << item.name;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(model->named_parameters().keys()));
}

TEST(TorchScript, ExportsInEvalModeAndRestoresTrainingMode) {
  const TemporaryDirectory directory;
  auto model = small_model();  // dropout 0.5: two runs in training mode would differ
  model->train();
  model->decoder->blocks->eval();
  export_torchscript(model, tokens(2, 5), directory / "m", {.dynamic = kBatchAndLength});
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(model->embedding->is_training());
  EXPECT_FALSE(model->decoder->blocks[0]->is_training());
}

TEST(TorchScript, StoresInputNamesAndExtraFiles) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m",
                     {.input_names = {"tokens"},
                      .dynamic = kBatchAndLength,
                      .extra_files = {{"tokenizer.json", "{}"}}});
  torch::jit::ExtraFilesMap extra{{"tokenizer.json", ""}};
  const auto file = torch::jit::load((directory / "m").string(), std::nullopt, extra);
  EXPECT_EQ(extra["tokenizer.json"], "{}");
  const auto& schema = file.get_method("forward").function().getSchema();
  EXPECT_EQ(schema.arguments().at(1).name(), "tokens");
}

TEST(TorchScript, RejectsSpecializedDimensionsAndNamesTheCallSite) {
  const TemporaryDirectory directory;
  const auto x = torch::randn({2, 5});
  const ExportOptions other_lengths{.dynamic = {{0, 1, "length"}}};
  EXPECT_THAT(
      [&] { export_torchscript(SpecializesLength(), x, directory / "m", other_lengths); },
      throws<std::runtime_error>(
          "called from attend::SpecializesLengthImpl::forward (specializing_modules.cpp:16)"));
  EXPECT_THAT([&] { export_torchscript(NarrowsToBits(), x, directory / "m", other_lengths); },
              throws<std::runtime_error>(
                  "aten::narrow is called with the argument 2 for inputs of shape (2, 5), but with "
                  "1 for (2, 1), called from attend::NarrowsToBitsImpl::forward "
                  "(specializing_modules.cpp:20)"));
  EXPECT_THAT(
      [&] { export_torchscript(CallsInlinedFunction(), x, directory / "m", other_lengths); },
      throws<std::runtime_error>("called from scaled_by_bits (specializing_modules.cpp:10)"));
  EXPECT_THAT(
      [&] {
        export_torchscript(DoublesLongInputs(), x, directory / "m",
                           {.dynamic = {{0, 1, "length", 1, 64}}});
      },
      throws<std::runtime_error>("a size was specialized: with inputs of shape (2, 5), forward "
                                 "calls aten::mul, called from "
                                 "attend::DoublesLongInputsImpl::forward "
                                 "(specializing_modules.cpp:40); with (2, 40), it calls aten::mul, "
                                 "called from attend::DoublesLongInputsImpl::forward "
                                 "(specializing_modules.cpp:38)"));
  // The module is rejected before the exported program is run at another size: at other sizes, the
  // LSTM would read out of bounds on the CPU.
  EXPECT_THAT(
      [&] {
        export_torchscript(SpecializesBatch(), torch::randn({5, 2, 3}), directory / "m",
                           {.dynamic = {{0, 1, "batch"}}});
      },
      throws<std::runtime_error>("SpecializesBatchImpl::forward (specializing_modules.cpp:24)"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST(TorchScript, NamesTheLineOfAnInlinedLambda) {
  const TemporaryDirectory directory;
  const torch::nn::Conv2d module(1, 1, 1);
  EXPECT_THAT(
      [&] {
        export_torchscript(module, optimized_forward(), {torch::ones({2, 5})}, directory / "m",
                           {.dynamic = {{0, 1, "length"}}});
      },
      throws<std::runtime_error>("lambda (optimized_forward.cpp:19)"));
}

/// The sizes in the arguments of torch::zeros are not the reason.
TEST(TorchScript, NamesTheLoopWhoseNumberOfStepsIsASize) {
  const TemporaryDirectory directory;
  const ExportOptions options{.dynamic = {{0, 0, "batch", 1, 8}, {0, 1, "length", 1, 8}}};
  EXPECT_THAT(
      [&] {
        export_torchscript(LoopsOverPositions(), torch::ones({2, 5}), directory / "m", options);
      },
      throws<std::runtime_error>(
          "with inputs of shape (2, 5), forward calls aten::tanh, called from "
          "attend::LoopsOverPositionsImpl::forward (specializing_modules.cpp:54); with (1, 1), it "
          "calls no further operator; the number of steps of a loop must not depend on a size: "
          "replace the loop by operators on whole tensors"));
  EXPECT_THAT(
      [&] {
        export_torchscript(LoopsOverACell(), torch::ones({2, 5, 3}), directory / "m", options);
      },
      throws<std::runtime_error>("a loop over a recurrent cell by torch::nn::LSTM, GRU or RNN"));
}

/// The module multiplies, divides or creates with a number that is no expression of sizes.
TEST(TorchScript, SuggestsAnAlternativeToTheOperator) {
  const TemporaryDirectory directory;
  const torch::nn::Conv2d module(1, 1, 1);
  const auto expect_remedy = [&](torch::Tensor (*function)(const torch::Tensor& x, int64_t bits),
                                 const char* remedy) {
    const auto forward = [&](const std::vector<torch::Tensor>& in) -> Outputs {
      return function(in[0], std::popcount(static_cast<uint64_t>(in[0].size(1))));
    };
    EXPECT_THAT(
        [&] {
          export_torchscript(module, forward, {torch::ones({2, 5})}, directory / "m",
                             {.dynamic = {{0, 1, "length"}}});
        },
        throws<std::runtime_error>(remedy));
  };
  expect_remedy([](const auto&, int64_t n) { return torch::zeros({n}); }, "torch::zeros_like");
  expect_remedy([](const auto&, int64_t n) { return torch::arange(n); }, "cumsum(dim)");
  expect_remedy([](const auto& x, int64_t n) { return x / n; }, "such as mean");
  expect_remedy([](const auto& x, int64_t n) { return x.narrow(1, 0, n); }, "a negative index");
  expect_remedy(
      [](const auto& x, int64_t n) {
        return x.sum() * torch::ones({6}).view({n, -1});
      },
      "torch::unflatten");
  expect_remedy([](const auto& x, int64_t n) { return x.sum() * torch::ones({1}).expand({n}); },
                "expand_as or broadcasting");
  expect_remedy(
      [](const auto& x, int64_t n) { return x + torch::tensor({static_cast<float>(n)}); },
      "a tensor with the elements 2 for inputs of shape (2, 5), but with a tensor with the "
      "elements 1 for (2, 1)");
}

TEST(TorchScript, RejectsOptionsThatDoNotMatchTheExample) {
  const TemporaryDirectory directory;
  const auto expect_error = [&](const ExportOptions& options, const char* message) {
    EXPECT_THAT([&] { export_torchscript(small_model(), tokens(2, 5), directory / "m", options); },
                throws<c10::ValueError>(message));
  };
  expect_error({.input_names = {"a", "b"}},
               "found 2 input_names, expected at most 1, the number of inputs");
  expect_error({.input_names = {"two words"}}, "found 'two words'");
  expect_error({.output_names = {"y", "y"}},
               "each name in output_names must be unique, found 'y' more than once");
  expect_error({.dynamic = {{1, 0, "batch"}}},
               "'batch': input (1) must be less than the number of inputs (1)");
  expect_error({.dynamic = {{0, 2, "width"}}},
               "'width': dimension (2) must be 0 or more and less than the number of dimensions of "
               "input 0 (2)");
  expect_error({.dynamic = {{0, 0, ""}}}, "found ''");
  expect_error({.dynamic = {{0, 1, "length", 6}}},
               "the size of the example input (5) must be between min (6)");
  expect_error({.dynamic = {{0, 1, "length", 1, 4}}},
               "the size of the example input (5) must be between min (1) and max (4)");
  expect_error({.dynamic = {{0, 1, "length", -1}}}, "min (-1) must be 0 or more");
  expect_error({.dynamic = {{0, 0, "size"}, {0, 1, "size"}}},
               "found 2 and 5 in the example inputs");
  expect_error({.dynamic = {{0, 0, "batch"}, {0, 0, "rows"}}},
               "dimension 0 of input 0 is listed as dynamic more than once");
  EXPECT_THAT(
      [&] {
        export_torchscript(small_model(), tokens(2, 0), directory / "m",
                           {.dynamic = {{0, 1, "length", 0}}});
      },
      throws<c10::ValueError>("the size of the example input (0) must be 1 or more"));
}

TEST(TorchScript, ExportsConvolutionNets) {
  const TemporaryDirectory directory;
  ConvolutionNet net;
  net->norm->running_mean.fill_(0.25);
  const auto path = directory / "net.pt";
  export_torchscript(net, torch::randn({2, 2, 9}), path,
                     {.dynamic = {{0, 0, "batch"}, {0, 2, "length", 3}}});
  auto file = torch::jit::load(path.string());
  std::vector<std::string> buffers;
  for (const auto& item : file.named_buffers()) buffers.push_back(item.name);
  EXPECT_THAT(buffers, testing::UnorderedElementsAre("norm.running_mean", "norm.running_var",
                                                     "norm.num_batches_tracked"));
  const auto x = torch::randn({1, 2, 30});
  net->eval();
  EXPECT_TRUE(close(file.forward({x}).toTensor(), net(x), 1e-6));
}

TEST(TorchScript, IsDeterministic) {
  const TemporaryDirectory directory;
  auto model = small_model();
  for (const char* name : {"one.pt", "another.pt"}) {
    export_torchscript(model, torch::arange(6).view({2, 3}), directory / name,
                       {.dynamic = kBatchAndLength});
  }
  EXPECT_EQ(read_bytes(directory / "one.pt"), read_bytes(directory / "another.pt"));
}

TEST(TorchScript, CanBeFineTuned) {
  const TemporaryDirectory directory;
  auto model = small_model();
  export_torchscript(model, tokens(2, 5), directory / "m", {.dynamic = kBatchAndLength});
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

/// Exports x * 2 with a scripted method `divide(x, divisor)`.
void export_with_calls(const std::filesystem::path& path, std::vector<TorchScriptCall> calls) {
  ConvolutionNet module;
  const auto doubled = [](const std::vector<torch::Tensor>& in) { return in[0] * 2; };
  const char* source = R"(
def check(self, divisor: int):
    assert divisor != 0, "divisor must not be 0"

def divide(self, x: Tensor, divisor: int = 2) -> Tensor:
    if divisor < 10:
        self.check(divisor)
    return self.forward(x) / divisor + torch.rand_like(x)
)";
  export_torchscript(*module, doubled, {torch::ones({2})}, path, {},
                     {.source = source, .calls = std::move(calls)});
}

TEST(TorchScript, RunsScriptedMethodsBeforeWritingTheFile) {
  const TemporaryDirectory directory;
  const auto path = directory / "m.pt";
  const auto x = torch::ones({3});
  const auto expect_error = [&](std::vector<TorchScriptCall> calls, const char* message) {
    EXPECT_THAT([&] { export_with_calls(path, calls); }, throws<std::runtime_error>(message));
    EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
  };
  expect_error(
      {{"divide", {x, 0}}},
      "method 'divide' fails in the exported program: RuntimeError: AssertionError: divisor must");
  expect_error({{"divide", {x, torch::ones({})}}}, "method 'divide' fails");
  const auto half = [&] { return x * 2 / 4 + torch::rand_like(x); };
  expect_error({{"divide", {x, 2}, half}}, "method 'divide' returns");
  EXPECT_THAT([&] { export_with_calls(path, {}); },
              throws<c10::ValueError>("no call runs the method 'check'"));
  EXPECT_THAT(
      [&] {
        export_with_calls(path, {{"check", {1}}});
      },
      throws<c10::ValueError>("no call runs the method 'divide'"));
  EXPECT_THAT(
      [&] {
        export_with_calls(path, {{"forward", {x}}});
      },
      throws<c10::ValueError>("found 'forward'"));
  export_with_calls(path, {{"divide", {x}}, {"divide", {x, 4}, half}});
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace attend
