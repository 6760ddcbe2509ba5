#include "attend/export/onnx.h"

#include "attend/export/onnx_contents.h"
#include "attend/input_error.h"
#include "attend/models/language_model.h"
#include "io/files.h"
#include "support/onnx_file.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace attend {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::ThrowsMessage;

LanguageModel model_of_two_layers(bool tie_embeddings) {
  return LanguageModel(LanguageModelConfig{
      .vocab_size = 11,
      .max_seq_len = 12,
      .tie_embeddings = tie_embeddings,
      .stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8, .dropout = 0.5}});
}

const ExportOptions kTokens{
    .input_names = {"tokens"},
    .output_names = {"logits"},
    .dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 12}},
    .extra_files = {{"tokenizer.json", "{}"}, {"empty", ""}},
};

ExportReport export_model(LanguageModel& model, const std::filesystem::path& path,
                          const ExportOptions& options = kTokens) {
  return export_onnx(
      *model, [&](const auto& inputs) { return model(inputs.at(0)); },
      {torch::randint(11, {2, 5}, torch::kLong)}, path, options);
}

/// Options for one input of shape (B, T) with two dynamic dimensions.
const ExportOptions kDynamicBatchAndLength{.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}};

/// Exports a function as a module without parameters.
void export_function(const std::function<Outputs(const torch::Tensor&)>& function,
                     const std::filesystem::path& path,
                     const ExportOptions& options = kDynamicBatchAndLength) {
  struct Empty : torch::nn::Module {};
  Empty module;
  export_onnx(
      module, [&](const auto& inputs) { return function(inputs.at(0)); }, {torch::randn({2, 4})},
      path, options);
}

struct CallsUnsupportedOperatorsImpl : torch::nn::Module {
  // The function must not be inlined: without debug information, the name of an inlined function is
  // lost.
  [[gnu::noinline]] torch::Tensor forward(const torch::Tensor& x) {
    const auto one = torch::digamma(x);
    return one + torch::erfinv(x);
  }
};
TORCH_MODULE(CallsUnsupportedOperators);

struct PooledConvolutionImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const auto pooled = torch::nn::functional::max_pool1d(
        norm(conv(x)).relu(), torch::nn::functional::MaxPool1dFuncOptions(2));
    return pooled.transpose(1, 2);
  }
  torch::nn::Conv1d conv =
      register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 4, 3).stride(2)));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
};
TORCH_MODULE(PooledConvolution);

TEST(Onnx, VerifiesTheTraceAtOtherShapes) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/true);
  const auto report = export_model(model, directory / "model.onnx");
  EXPECT_LE(report.max_abs_diff, 1e-5);
  EXPECT_EQ(report.verified_sizes.at("batch").min, 1);
  EXPECT_EQ(report.verified_sizes.at("batch").max, 4097);
  EXPECT_EQ(report.verified_sizes.at("length").min, 1);
  EXPECT_EQ(report.verified_sizes.at("length").max, 12);
}

TEST(Onnx, WritesWeightsToASecondFileOnRequest) {
  const TemporaryDirectory directory;
  struct Scaled : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x * large.t() + small + pair.abs(); }
    torch::Tensor large = register_parameter("large", torch::randn({16, 300}).t());
    torch::Tensor small = register_parameter("small", torch::randn({16, 1}));
    torch::Tensor pair =
        register_buffer("pair", torch::randn({300, 16}, torch::kComplexFloat).t().conj());
  };
  auto module = std::make_shared<Scaled>();
  const auto x = torch::randn({16, 300});
  const auto path = directory / "model.onnx";
  const auto whole = export_onnx(module, x, path, {});
  EXPECT_EQ(whole.external_data, "");
  const auto names_and_bytes = [&] {
    std::map<std::string, int64_t> found;
    for (const auto& tensor : onnx_contents(path).tensors) found[tensor.name] = tensor.bytes;
    return found;
  };
  const auto tensors = names_and_bytes();
  const auto report = export_onnx(module, x, path, {}, {.external_data = true});
  EXPECT_EQ(report.external_data, directory / "model.onnx.data");
  EXPECT_EQ(names_and_bytes(), tensors);
  EXPECT_LT(read_bytes(path).size(), 3000);
  const auto data = read_bytes(report.external_data);
  const auto floats_at = [&](std::size_t offset, const torch::Tensor& like) {
    auto found = torch::empty_like(like, torch::MemoryFormat::Contiguous);
    std::memcpy(found.data_ptr(), data.data() + offset, found.nbytes());
    return found;
  };
  // Each weight begins at a multiple of 4096.
  EXPECT_TRUE(floats_at(0, module->large.detach()).equal(module->large));
  EXPECT_TRUE(floats_at(20480, torch::view_as_real(module->pair.resolve_conj()))
                  .equal(torch::view_as_real(module->pair.resolve_conj())));
}

TEST(Onnx, SecondFileOfAnEarlierExportIsRemoved) {
  const TemporaryDirectory directory;
  const auto path = directory / "model.onnx";
  const torch::nn::Linear linear(20, 20);
  const auto run = [&](bool external_data) {
    export_onnx(linear, torch::ones({1, 20}), path, {}, {.external_data = external_data});
  };
  run(true);
  EXPECT_THAT(onnx_contents(path).external_data, testing::ElementsAre("model.onnx.data"));
  run(false);
  EXPECT_THAT(onnx_contents(path).external_data, testing::IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(directory / "model.onnx.data"));
  // A file to which the ONNX file does not refer is not removed.
  replace_file(directory / "model.onnx.data", "seven b");
  run(false);
  EXPECT_TRUE(std::filesystem::exists(directory / "model.onnx.data"));
}

TEST(Onnx, FailedExportsLeaveNeitherFile) {
  const TemporaryDirectory directory;
  const auto path = directory / "model.onnx";
  std::filesystem::create_directory(directory / "model.onnx.data");  // cannot be replaced
  const torch::nn::Linear linear(20, 20);
  const auto run = [&] {
    export_onnx(linear, torch::ones({1, 20}), path, {}, {.external_data = true});
  };
  EXPECT_THAT(run, throws_naming<InputError>("model.onnx.data"));
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove(directory / "model.onnx.data");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  run();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 2);
}

TEST(Onnx, OpsetSelectsOperators) {
  const TemporaryDirectory directory;
  const auto path = directory / "model.onnx";
  struct Gelu : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return torch::gelu(x).sum(-1).amax(0); }
  };
  const auto module = std::make_shared<Gelu>();
  for (int64_t opset = 17; opset <= 23; ++opset) {
    export_onnx(module, torch::randn({2, 4}), path, {}, {.opset = opset});
    const auto file = read_onnx(path);
    EXPECT_EQ(file.opset, opset);
    EXPECT_EQ(onnx_contents(path).opset, opset);
    EXPECT_EQ(onnx_contents(path).operators.count("Gelu"), opset >= 20 ? 1 : 0) << opset;
  }
  for (const int64_t opset : {16, 24}) {
    EXPECT_THAT(
        [&] {
          export_onnx(module, torch::randn({2, 4}), path, {}, {.opset = opset});
        },
        throws_naming<c10::ValueError>("opset", std::to_string(opset), "17", "23"));
  }
}

TEST(Onnx, WritesAttentionNodesOnlyForSequencesThatAreNotEmpty) {
  const TemporaryDirectory directory;
  const auto path = directory / "model.onnx";
  struct Empty : torch::nn::Module {};
  for (const int64_t min : {0, 1}) {
    for (const int64_t dimension : {0, 2}) {
      export_onnx(
          std::make_shared<Empty>(),
          [](const auto& in) { return torch::scaled_dot_product_attention(in[0], in[0], in[0]); },
          {torch::randn({2, 2, 3, 4})}, path, {.dynamic = {{0, dimension, "size", min, 6}}},
          {.opset = 23});
      EXPECT_EQ(onnx_contents(path).operators.count("Attention"), min) << dimension;
    }
  }
}

TEST(Onnx, NamesTheOpsetThatAnOperatorRequires) {
  const TemporaryDirectory directory;
  struct And : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x.bitwise_and(3); }
  };
  const auto run = [&] {
    export_onnx(std::make_shared<And>(), torch::ones({2}, torch::kLong), directory / "model.onnx",
                {}, {.opset = 17});
  };
  EXPECT_THAT(run, throws_naming<std::runtime_error>("bitwise_and", "BitwiseAnd", "18", "17"));
}

TEST(Onnx, NamesInputsOutputsAndParameters) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/false);
  export_model(model, directory / "model.onnx");
  const auto file = read_onnx(directory / "model.onnx");
  EXPECT_THAT(file.inputs, ElementsAre("tokens"));
  EXPECT_THAT(file.outputs, ElementsAre("logits"));
  EXPECT_THAT(file.initializers, IsSupersetOf(model->named_parameters().keys()));
  EXPECT_EQ(file.opset, 18);
  EXPECT_THAT(read_bytes(directory / "model.onnx"), AllOf(HasSubstr("batch"), HasSubstr("length")));
}

TEST(Onnx, StoresTiedWeightsOnce) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/true);
  export_model(model, directory / "model.onnx");
  EXPECT_THAT(read_onnx(directory / "model.onnx").initializers,
              AllOf(Contains("embedding.token.weight").Times(1), Not(Contains("head.weight"))));

  struct Tied : torch::nn::Module {
    torch::Tensor one = register_parameter("one", torch::randn({4, 4}));
    torch::Tensor other = register_parameter("other", one);
  } tied;
  export_onnx(
      tied,
      [&](const auto& inputs) { return inputs.at(0).matmul(tied.one).matmul(tied.other.t()); },
      {torch::randn({2, 4})}, directory / "tied.onnx", {});
  EXPECT_THAT(read_onnx(directory / "tied.onnx").initializers, ElementsAre("one"));
}

TEST(Onnx, StoresExtraFilesAsMetadata) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/true);
  export_model(model, directory / "model.onnx");
  EXPECT_EQ(read_onnx(directory / "model.onnx").metadata, kTokens.extra_files);
}

TEST(Onnx, ExportsInEvalModeAndRestoresTrainingMode) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/true);
  model->train();
  model->decoder->blocks->eval();
  export_model(model, directory / "model.onnx");
  EXPECT_TRUE(model->is_training());
  EXPECT_FALSE(model->decoder->blocks[0]->is_training());
}

TEST(Onnx, IsDeterministic) {
  const TemporaryDirectory directory;
  auto model = model_of_two_layers(/*tied=*/true);
  export_model(model, directory / "one");
  export_model(model, directory / "other");
  EXPECT_EQ(read_bytes(directory / "one"), read_bytes(directory / "other"));
}

TEST(Onnx, AcceptsUnknownDimensions) {
  const TemporaryDirectory directory;
  // The result of nonzero() has a data-dependent size.
  const auto chosen = [](const torch::Tensor& x) { return x.nonzero().sum() + x.sum(); };
  export_function(chosen, directory / "chosen.onnx");
  EXPECT_THAT(read_onnx(directory / "chosen.onnx").operators, testing::Contains("NonZero"));
}

TEST(Onnx, AcceptsSizesAfterStridesAndPools) {
  const TemporaryDirectory directory;
  PooledConvolution net;
  export_onnx(net, torch::randn({2, 2, 20}), directory / "net.onnx",
              {.dynamic = {{0, 0, "batch"}, {0, 2, "length", 7}}});
  const auto file = read_onnx(directory / "net.onnx");
  EXPECT_THAT(file.operators, IsSupersetOf({"Conv", "BatchNormalization", "MaxPool"}));
  EXPECT_THAT(file.initializers,
              testing::UnorderedElementsAre("conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                            "norm.running_mean", "norm.running_var"));
}

TEST(Onnx, ExportsSeveralOutputsAndInputsAsOutputs) {
  const TemporaryDirectory directory;
  const auto several = [](const torch::Tensor& x) {
    const auto doubled = x * 2;
    return std::make_tuple(doubled, x, doubled);
  };
  export_function(several, directory / "several.onnx", {.output_names = {"doubled", "same"}});
  EXPECT_THAT(read_onnx(directory / "several.onnx").outputs,
              ElementsAre("doubled", "same", "output2"));
  EXPECT_THAT(
      [&] {
        export_function(several, directory / "m", {.output_names = {"a", "b", "c", "d"}});
      },
      throws<c10::ValueError>("found 4 output_names, expected at most 3, the number of outputs"));
}

TEST(Onnx, ExportsAnInputOrAWeightAsOutput) {
  const TemporaryDirectory directory;
  export_function([](const torch::Tensor& x) { return x; }, directory / "input.onnx");
  const auto input = read_onnx(directory / "input.onnx");
  EXPECT_THAT(input.operators, ElementsAre("Identity"));
  EXPECT_THAT(input.outputs, ElementsAre("output0"));

  torch::nn::Linear layer(4, 3);
  export_onnx(
      *layer, [&](const auto&) { return layer->weight; }, {torch::randn({2, 4})},
      directory / "weight.onnx", kDynamicBatchAndLength);
  const auto weight = read_onnx(directory / "weight.onnx");
  EXPECT_THAT(weight.operators, ElementsAre("Identity"));
  EXPECT_THAT(weight.inputs, ElementsAre("input0"));
  EXPECT_THAT(weight.initializers, ElementsAre("weight"));
}

TEST(Onnx, RejectsAModuleWithoutOutputs) {
  const TemporaryDirectory directory;
  EXPECT_THAT(
      [&] {
        export_function([](const torch::Tensor&) { return std::vector<torch::Tensor>(); },
                        directory / "m");
      },
      throws<c10::ValueError>("forward must return at least one output, found 0"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST(Onnx, ErrorNamesTheOperatorAndTheUnsupportedType) {
  const TemporaryDirectory directory;
  const auto pools = [](const torch::Tensor& x) {
    return torch::max_pool2d(x.unsqueeze(0).to(torch::kLong), 1);
  };
  EXPECT_THAT([&] { export_function(pools, directory / "m"); },
              throws<std::runtime_error>("aten::max_pool2d cannot be exported to ONNX: the ONNX "
                                         "operator MaxPool does not support the type int64"));
}

TEST(Onnx, PropagatesMutationsThroughViews) {
  const TemporaryDirectory directory;
  export_function(
      [](const torch::Tensor& x) {
        const auto copy = x.clone();
        copy.select(1, 0).fill_(3.0);
        return copy;
      },
      directory / "m");
  EXPECT_THAT(read_onnx(directory / "m").operators, Contains("ScatterElements"));
  EXPECT_THAT(
      [&] {
        export_function(
            [](const torch::Tensor& x) {
              const auto copy = x.clone();
              copy.transpose(0, 1).add_(1.0);
              return copy;
            },
            directory / "m");
      },
      throws<std::runtime_error>("aten::add_ mutated the memory of a tensor"));
}

TEST(Onnx, RejectsMutationsOfViewsThatAreCopiesAtOtherSizes) {
  const TemporaryDirectory directory;
  const auto expect_error =
      [&](const std::function<torch::Tensor(const torch::Tensor&)>& function) {
        EXPECT_THAT([&] { export_function(function, directory / "m"); },
                    throws<std::runtime_error>("aten::add_ mutated the memory of a tensor"));
      };
  expect_error([](const torch::Tensor& x) {
    const auto transposed = (x * 1).transpose(0, 1);
    transposed.reshape({-1}).add_(1.0);  // reshape returns a view only for one row or column
    return transposed;
  });
  expect_error([](const torch::Tensor& x) {
    const auto transposed = (x * 1).transpose(0, 1);
    transposed.contiguous().add_(1.0);
    return transposed;
  });
  expect_error([](const torch::Tensor& x) {
    const auto transposed = (x * 1).transpose(0, 1);
    const auto flat = transposed.flatten();
    transposed.add_(1.0);
    return flat;
  });
  expect_error([](const torch::Tensor& x) {
    const auto image = torch::stack({x, x}).unsqueeze(0);
    const auto other = image.contiguous(torch::MemoryFormat::ChannelsLast);
    image.add_(1.0);
    return other;
  });
  expect_error([](const torch::Tensor& x) {
    const auto y = x * 1;
    const auto flat = y.view({-1});
    torch::broadcast_tensors({y, x})[0].add_(1.0);
    return flat;
  });
}

TEST(Onnx, ErrorNamesInputsOfUnsupportedTypes) {
  const TemporaryDirectory directory;
  torch::nn::Linear module(1, 1);
  const auto same = [](const std::vector<torch::Tensor>& in) { return in[0] * 1; };
  EXPECT_THAT(
      [&] {
        export_onnx(*module, same, {torch::zeros({2}, torch::kComplexFloat)}, directory / "m", {});
      },
      throws<std::runtime_error>("the input input0 cannot be exported to ONNX: dtype complex64 "
                                 "is not supported"));
}

TEST(Onnx, ErrorNamesAllUnsupportedOperators) {
  const TemporaryDirectory directory;
  EXPECT_THAT(
      [&] {
        export_onnx(CallsUnsupportedOperators(), torch::rand({2, 4}), directory / "m",
                    kDynamicBatchAndLength);
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("aten::digamma is not supported by the ONNX exporter, called from "),
                HasSubstr("CallsUnsupportedOperatorsImpl::forward"),
                HasSubstr("; aten::erfinv is not supported by the ONNX exporter"),
                HasSubstr("call register_onnx_translation(\"aten::digamma\", ...)"))));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

struct ScaledLayerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return second(first(x) * std::sin(x.size(0))); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(4, 4));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(4, 4));
};
TORCH_MODULE(ScaledLayer);

TEST(Onnx, ErrorNamesTheCallAfterTensorsMadeFromSizes) {
  struct Net : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) {
      return last->forward(x / torch::tensor({x.size(0)}));
    }
    CallsUnsupportedOperators last = register_module("last", CallsUnsupportedOperators());
  };
  const TemporaryDirectory directory;
  EXPECT_THAT(
      [&] {
        export_onnx(std::make_shared<Net>(), torch::rand({2, 4}), directory / "m",
                    kDynamicBatchAndLength);
      },
      throws<std::runtime_error>("CallsUnsupportedOperatorsImpl::forward"));
}

TEST(Onnx, ErrorNamesTheModuleWithoutDebugInformation) {
  struct Net : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return layers->forward(plain->forward(x)); }
    torch::nn::Linear plain = register_module("plain", torch::nn::Linear(4, 4));
    torch::nn::Sequential layers = register_module("layers", torch::nn::Sequential(ScaledLayer()));
  };
  const TemporaryDirectory directory;
  EXPECT_THAT(
      [&] {
        export_onnx(std::make_shared<Net>(), torch::rand({2, 4}), directory / "m",
                    {.dynamic = {{0, 0, "batch"}}});
      },
      throws<std::runtime_error>("in the module layers.0"));
}

TEST(Onnx, ErrorNamesTheOperatorWithAnUnsupportedArgument) {
  const TemporaryDirectory directory;
  const auto roll = [](const torch::Tensor& x) { return x.roll(1); };
  EXPECT_THAT([&] { export_function(roll, directory / "m"); },
              throws_naming<std::runtime_error>("aten::roll", "dims"));
}

TEST(Onnx, ErrorNamesOperatorsOnComplexTensors) {
  const TemporaryDirectory directory;
  const auto exponentials = [](const torch::Tensor& x) {
    return torch::view_as_real(torch::complex(x, x).exp());
  };
  EXPECT_THAT([&] { export_function(exponentials, directory / "m"); },
              throws<std::runtime_error>(
                  "aten::exp of complex tensors is not supported by the ONNX exporter"));
  const auto complex_output = [](const torch::Tensor& x) { return torch::complex(x, x); };
  EXPECT_THAT([&] { export_function(complex_output, directory / "m"); },
              throws<std::runtime_error>("the output output0 cannot be exported to ONNX: "
                                         "dtype complex64 is not supported"));
  const auto mutated = [](const torch::Tensor& x) {
    const auto z = torch::complex(x, x);
    torch::view_as_real(z).mul_(2);
    return z.abs();
  };
  EXPECT_THAT([&] { export_function(mutated, directory / "m"); },
              throws<std::runtime_error>("aten::mul_ mutated the memory of a tensor"));
}

TEST(Onnx, RejectsSpecializedDimensions) {
  const TemporaryDirectory directory;
  const auto specializes = [](const torch::Tensor& x) {
    return x.cumsum(-1) / static_cast<double>(x.size(-1) ^ 5);
  };
  EXPECT_THAT([&] { export_function(specializes, directory / "m"); },
              throws<std::runtime_error>(
                  "a size was specialized: aten::div is called with the argument 1"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST(Onnx, RejectsConvolutionsWithDynamicKernels) {
  const TemporaryDirectory directory;
  const auto convolves = [](const torch::Tensor& x) {
    return torch::conv1d(torch::ones({1, 1, 64}), x.unsqueeze(1));
  };
  EXPECT_THAT(
      [&] {
        export_function(convolves, directory / "m", {.dynamic = {{0, 1, "length", 1, 12}}});
      },
      throws<std::runtime_error>("the size of the kernel must not be dynamic: it is 4"));
}

TEST(Onnx, LargeIdentityMatricesAreNotConstants) {
  const TemporaryDirectory directory;
  export_function([](const torch::Tensor& x) { return x.sum() * torch::eye(2000); },
                  directory / "m");
  EXPECT_LT(std::filesystem::file_size(directory / "m"), 10000U);
}

TEST(Onnx, ScansTakeLogarithmicallyManySteps) {
  const TemporaryDirectory directory;
  const auto num_products = [&](int64_t max) {
    export_function([](const torch::Tensor& x) { return x.cumprod(1); }, directory / "m",
                    {.dynamic = {{0, 1, "length", 1, max}}});
    const auto operators = read_onnx(directory / "m").operators;
    return std::count(operators.begin(), operators.end(), "Mul");
  };
  EXPECT_EQ(num_products(64), 6);
  EXPECT_EQ(num_products(65), 7);
  EXPECT_EQ(num_products(std::numeric_limits<int64_t>::max()), 32);
}

TEST(Onnx, RejectsDuplicateNames) {
  const TemporaryDirectory directory;
  const auto same = [](const torch::Tensor& x) { return x * 2; };
  EXPECT_THAT([&] { export_function(same, directory / "m", {.output_names = {"input0"}}); },
              throws<c10::ValueError>("must be unique, found 'input0' as input and output"));
}

TEST(Onnx, NamesMayBeNumbers) {
  const TemporaryDirectory directory;
  torch::nn::Module module;
  const auto weight = module.register_parameter("1", torch::ones({}));
  const auto scale = [&](const auto& inputs) { return (inputs.at(0) * weight).relu().neg(); };
  export_onnx(module, scale, {torch::randn({2, 4})}, directory / "m",
              {.input_names = {"3"}, .output_names = {"4"}});
  const auto file = read_onnx(directory / "m");
  EXPECT_THAT(file.inputs, ElementsAre("3"));
  EXPECT_THAT(file.initializers, ElementsAre("1"));
  EXPECT_THAT(file.outputs, ElementsAre("4"));
}

}  // namespace
}  // namespace attend
