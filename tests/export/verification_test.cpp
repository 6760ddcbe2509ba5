// Tests of the verification in all exporters. An exporter must reject a module if the exported file
// would give other results than the module. It must accept all other modules.
#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/input_error.h"
#include "attend/model_export/export_plan.h"
#include "attend/ops/attention.h"
#include "attend/ops/fast_kernels.h"
#include "attend/pt2/pt2_program.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <csignal>
#include <cstring>
#include <locale>
#include <string_view>
#include <thread>

namespace attend {
namespace {

using Inputs = std::vector<torch::Tensor>;

struct ExportFormat {
  const char* name;
  std::function<ExportReport(torch::nn::Module&, const Forward&, const Inputs&,
                             const std::filesystem::path&, const ExportOptions&)>
      write;
};

const ExportFormat kFormats[] = {
    {"torchscript", [](auto&... all) { return export_torchscript(all...); }},
    {"pt2", [](auto&... all) { return export_pt2(all...); }},
    {"onnx", [](auto&... all) { return export_onnx(all...); }},
};

struct EachFormat : testing::TestWithParam<ExportFormat> {
  /// Exports a function with one input. The example input has shape (4, 6). Dimension 1 of the
  /// input is dynamic: its size may be 1 to 64.
  ExportReport write(const std::function<Outputs(const torch::Tensor&)>& function,
                     const Inputs& example = {torch::randn({4, 6})}) {
    const auto forward = [&](const Inputs& in) { return function(in[0]); };
    return GetParam().write(*module, forward, example, path,
                            {.dynamic = {{0, 1, "length", 1, 64}}});
  }
  void expect_error(const std::function<Outputs(const torch::Tensor&)>& function,
                    const char* message) {
    EXPECT_THAT([&] { write(function); }, throws<std::runtime_error>(message));
    EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
  }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "file";
  torch::nn::Linear module{1, 1};
};

TEST_P(EachFormat, ThrowsIfTheDiskIsFull) {
  struct FileSizeLimit {
    FileSizeLimit() {
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit limit{100, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
      setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, handler);
    }
    rlimit before{};
    void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  };
  const auto write_small = [&] {
    const FileSizeLimit limit;
    write([](const torch::Tensor& x) { return x * 2; });
  };
  EXPECT_THAT(write_small, throws<std::runtime_error>(std::strerror(EFBIG)));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST_P(EachFormat, RejectsBranchesOnTheMaximum) {
  EXPECT_THAT(
      [&] {
        GetParam().write(
            *module, [](const Inputs& in) { return in[0].size(1) == 4096 ? in[0] * 2 : in[0] + 1; },
            {torch::randn({4, 6})}, path, {.dynamic = {{0, 1, "length", 1, 4096}}});
      },
      throws<std::runtime_error>("for an input of shape (4, 4096)"));
}

TEST_P(EachFormat, RejectsBranchesOnEmptyInputs) {
  const auto forward = [](const Inputs& in) {
    return in[0].size(1) == 0 ? torch::ones({4, 1}) : in[0].sum(1, true);
  };
  const auto export_from = [&](int64_t min) {
    GetParam().write(*module, forward, {torch::randn({4, 6})}, path,
                     {.dynamic = {{0, 1, "length", min, 4096}}});
  };
  EXPECT_NO_THROW(export_from(1));
  EXPECT_THAT([&] { export_from(0); }, throws<std::runtime_error>("for an input of shape (4, 0)"));
}

TEST_P(EachFormat, RejectsBranchesAroundConstantsOfTheGraph) {
  EXPECT_THAT(
      [&] {
        GetParam().write(*module,
                         [](const Inputs& in) {
                           const auto last = in[0].slice(1, -300);
                           return in[0].size(1) == 301 ? last * 2 : last + 1;
                         },
                         {torch::randn({4, 6})}, path, {.dynamic = {{0, 1, "length", 1, 4096}}});
      },
      throws<std::runtime_error>("for an input of shape (4, 301)"));
}

TEST_P(EachFormat, ComputesRemaindersOfSizes) {
  for (const int64_t divisor : {2, 3, 4}) {
    const auto forward = [&](const Inputs& in) {
      return in[0] * (1.0 + static_cast<double>(in[0].size(1) % divisor));
    };
    const auto report = GetParam().write(*module, forward, {torch::randn({4, 6})}, path,
                                         {.dynamic = {{0, 1, "length", 1, 64}}});
    EXPECT_EQ(report.verified_sizes.at("length").min, 1);
    EXPECT_EQ(report.verified_sizes.at("length").max, 64);
  }
}

TEST_P(EachFormat, RejectsNumbersThatAreNoExpressionsOfSizes) {
  expect_error([&](const auto& x) { return x * (1.0 + std::sin(static_cast<double>(x.size(1)))); },
               "aten::mul is called with");
}

TEST_P(EachFormat, RejectsBranchesOnSizesFarFromTheExample) {
  const auto branches = [](const Inputs& in) { return in[0].size(1) > 50 ? in[0] * 2 : in[0] + 1; };
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, branches, {torch::randn({4, 6})}, path,
                         {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
      },
      throws<std::runtime_error>("a size was specialized: "));
}

TEST_P(EachFormat, RejectsBranchesOnSizesInsideTheBounds) {
  expect_error([](const auto& x) { return x.size(1) == 40 ? x * 2 : x + 1; },
               "a size was specialized: ");
  const auto branches = [](const Inputs& in) {
    return in[0].size(1) > 512 ? in[0] * 2 : in[0] + 1;
  };
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, branches, {torch::randn({4, 6})}, path,
                         {.dynamic = {{0, 1, "length", 1, 4096}}});
      },
      throws<std::runtime_error>("a size was specialized: "));
}

TEST_P(EachFormat, RejectsBranchesOnLargeSizesWithoutAMaximum) {
  for (const int64_t limit : {512, 1024, 2048, 4096}) {
    const auto branches = [&](const Inputs& in) {
      return in[0].size(1) > limit ? in[0] * 2 : in[0] + 1;
    };
    EXPECT_THAT(
        [&] {
          GetParam().write(*module, branches, {torch::randn({4, 6})}, path,
                           {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
        },
        throws<std::runtime_error>(fmt::format("(4, {})", limit + 1).c_str()));
  }
}

TEST_P(EachFormat, VerifiesUpToTheMaximum) {
  const auto forward = [](const Inputs& in) { return in[0].slice(1, -300) * 2; };
  const auto report = GetParam().write(*module, forward, {torch::randn({2, 6})}, path,
                                       {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 4096}}});
  EXPECT_EQ(report.verified_sizes.at("length").min, 1);
  EXPECT_EQ(report.verified_sizes.at("length").max, 4096);
  EXPECT_EQ(report.verified_sizes.at("batch").max, 4097);
  EXPECT_GE(report.num_verified_shapes, 20);
}

/// Tests that need much memory. They run for only one format, because all formats are verified in
/// the same way.
struct OneFormat : EachFormat {};

/// At the maximum sizes, the result would have 2^45 elements.
TEST_P(OneFormat, VerifiesAsFarAsMemoryAllows) {
  const auto weight = module->register_buffer("wide", torch::randn({1, 512}));
  const auto forward = [&](const Inputs& in) { return in[0].unsqueeze(-1) * weight; };
  const ExportOptions options{
      .dynamic = {{0, 0, "batch", 1, 1 << 18}, {0, 1, "length", 1, 1 << 18}}};
  const auto report = GetParam().write(*module, forward, {torch::randn({2, 6})}, path, options);
  EXPECT_LT(report.verified_sizes.at("length").max, 1 << 18);
  EXPECT_GE(report.verified_sizes.at("length").max, 1 << 12);
}

/// The output for the example input needs 80 MB. The maximum length is verified with the smallest
/// batch.
TEST_P(OneFormat, VerifiesTheMaximumOfAWideModel) {
  const auto vocabulary = module->register_buffer("vocabulary", torch::randn({1, 30'000}));
  const auto forward = [&](const Inputs& in) { return in[0].unsqueeze(-1) * vocabulary; };
  const auto report = GetParam().write(*module, forward, {torch::randn({2, 340})}, path,
                                       {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 1024}}});
  EXPECT_EQ(report.verified_sizes.at("length").max, 1024);
  EXPECT_GE(report.num_verified_shapes, 10);
}

TEST_P(EachFormat, RejectsOffsetsAndFlagsReadByItem) {
  const auto offset = [](const Inputs& in) { return in[0] * in[1].item<int64_t>(); };
  const auto flag = [](const Inputs& in) { return in[1].item<bool>() ? in[0] * 2 : in[0] + 1; };
  const ExportOptions options{.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}};
  const auto x = torch::randn({4, 6});
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, offset, {x, torch::tensor(3)}, path, options);
      },
      throws<std::runtime_error>(
          "a value was specialized: aten::mul is called with the argument 3"));
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, flag, {x, torch::tensor(true)}, path, options);
      },
      throws<std::runtime_error>("a value was specialized: "));
}

TEST_P(EachFormat, ErrorNamesTheShapesOfAllInputs) {
  const auto forward = [](const Inputs& in) {
    return in[0].sum() + in[1] * static_cast<double>(in[1].size(0) ^ 5);
  };
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, forward, {torch::randn({4}), torch::randn({6})}, path,
                         {.dynamic = {{1, 0, "length", 1, 64}}});
      },
      throws<std::runtime_error>(
          "a size was specialized: aten::mul is called with the argument 3 for inputs of "
          "shape (4) and (6), but with 4 for (4) and (1)"));
}

TEST_P(EachFormat, RejectsTheLargestValidValueReadByItem) {
  const auto narrowed = [](const Inputs& in) {
    return in[0].narrow(1, 0, in[1].max().item<int64_t>());
  };
  for (const auto& lengths : {torch::tensor(6), torch::tensor({6, 6})}) {
    EXPECT_THAT(
        [&] {
          GetParam().write(*module, narrowed, {torch::randn({4, 6}), lengths}, path, {});
        },
        throws<std::runtime_error>("a value was specialized: "));
  }
}

TEST_P(EachFormat, RejectsNondeterministicForward) {
  double calls = 0.0;
  expect_error(
      [&](const auto& x) {
        const auto state = torch::zeros({1});
        *state.data_ptr<float>() = static_cast<float>(++calls);  // not recorded in the trace
        return x + state;
      },
      "the module is not deterministic");
  expect_error(
      [](const auto& x) {
        return x + torch::rand({6}, at::make_generator<at::CPUGeneratorImpl>());
      },
      "use the default generator");
}

TEST_P(EachFormat, ExportsRandomNumbersAndRestoresTheGenerator) {
  torch::manual_seed(7);
  const auto expected = torch::rand({3});
  torch::manual_seed(7);
  write(
      [](const auto& x) {
        const auto noise = torch::rand_like(x) + torch::randn_like(x) + torch::bernoulli(x, 0.5);
        return std::vector{torch::dropout(x + noise, 0.25, /*train=*/true),
                           torch::empty_like(x).uniform_(-1, 2)};
      },
      {torch::ones({4, 6})});
  EXPECT_TRUE(torch::rand({3}).equal(expected));
}

TEST_P(EachFormat, ComputesSizesOfRandomNumbers) {
  const auto report = write([](const auto& x) {
    return torch::cat({x, torch::rand({4, x.size(1)})}, 1);
  });
  EXPECT_EQ(report.verified_sizes.at("length").max, 64);
}

TEST_P(EachFormat, RejectsBranchesOnRandomNumbers) {
  expect_error(
      [](const auto& x) { return torch::rand({}).template item<double>() < 0.5 ? x.sin() : x + 1; },
      "the exported program returns");
}

TEST_P(EachFormat, ReportsValuesReadDuringTheTrace) {
  const auto report = write([](const auto& x) {
    TORCH_CHECK(x.max().template item<float>() < 100 && !x.equal(x + 1));
    return x * 2;
  });
  ASSERT_EQ(report.values_read.size(), 2);
  EXPECT_THAT(report.values_read[0], testing::StartsWith("aten::item, called from"));
  EXPECT_THAT(report.values_read[1], testing::StartsWith("aten::equal, called from"));
  EXPECT_THAT(write([](const auto& x) { return x.masked_fill(x > 0, 0).sum(1, true); }).values_read,
              testing::IsEmpty());
}

int num_traced_nodes = 0;

/// LibTorch's tracer calls a hook for each node. All threads share this hook. LibTorch has no
/// function that returns the hook, so an exporter that replaced it could not restore it.
TEST_P(EachFormat, DoesNotReplaceTheHookOfTheTracer) {
  torch::jit::tracer::setRecordSourceLocation([](torch::jit::Node*) { ++num_traced_nodes; });
  expect_error([](const auto& x) { return x * std::sin(x.size(1)); }, "called from");
  num_traced_nodes = 0;
  write([](const auto& x) { return x + 1; });
  EXPECT_GT(num_traced_nodes, 0);
  torch::jit::tracer::setRecordSourceLocation([](torch::jit::Node*) {});
}

TEST_P(EachFormat, NamesCallSitesInConcurrentExports) {
  const auto run = [&](const char* name) {
    torch::nn::Linear own(1, 1);
    for (int i = 0; i < 5; ++i) {
      EXPECT_THAT(
          [&] {
            GetParam().write(*own, [](const Inputs& in) { return in[0] * std::sin(in[0].size(1)); },
                             {torch::randn({4, 6})}, directory / name,
                             {.dynamic = {{0, 1, "length", 1, 64}}});
          },
          throws<std::runtime_error>("NamesCallSitesInConcurrentExports"));
    }
  };
  std::thread other(run, "other");
  run("one");
  other.join();
}

TEST_P(EachFormat, RejectsUndefinedOutputsAndUnregisteredParameters) {
  expect_error(
      [](const auto& x) {
        return std::vector{x + 1, torch::Tensor()};
      },
      "output 1 of forward must be a defined tensor");
  const auto weight = torch::ones({6}, torch::requires_grad());
  expect_error([&](const auto& x) { return x * weight; }, "register it as a parameter");
}

TEST_P(EachFormat, ErrorNamesACallThatReturnsAnotherNumberOfTensors) {
  expect_error([](const auto& x) { return x.chunk(2, 1)[0] * 1; }, "aten::chunk returns 2 tensors");
}

TEST_P(EachFormat, RestoresMutatedParameters) {
  const auto before = module->bias.detach().clone();
  expect_error([&](const auto& x) { return x + module->bias.data().add_(1); }, "'bias'");
  EXPECT_TRUE(module->bias.equal(before));
}

TEST_P(EachFormat, RestoresTheShapeOfBuffers) {
  const auto buffer = module->register_buffer("buffer", torch::arange(4.0));
  EXPECT_ANY_THROW(write([&](const torch::Tensor& x) {
    buffer.resize_(x.sizes()).copy_(x);
    return buffer * 2;
  }));
  EXPECT_TRUE(buffer.equal(torch::arange(4.0)));
}

TEST_P(EachFormat, RejectsMutationOfAParameter) {
  expect_error(
      [&](const auto& x) {
        const torch::NoGradGuard no_grad;
        return x + module->bias.add_(1);
      },
      "parameter");
}

TEST_P(EachFormat, RejectsMutationOfAnUnregisteredTensor) {
  const auto count = torch::zeros({1});
  expect_error([&](const auto& x) { return x + count.add_(1); },
               "shape (1) that is neither an input nor a buffer");
}

/// In a TorchScript file, extra files may contain arbitrary bytes.
TEST(Export, RejectsExtraFilesThatAreNotUtf8InPt2AndOnnx) {
  const TemporaryDirectory directory;
  const torch::nn::Linear module(2, 2);
  const ExportOptions options{.extra_files = {{"notes", "\xff"}}};
  const auto x = torch::ones({1, 2});
  EXPECT_THAT([&] { export_pt2(module, x, directory / "m", options); },
              throws<InputError>("notes"));
  EXPECT_THAT([&] { export_onnx(module, x, directory / "m", options); },
              throws<InputError>("notes"));
  export_torchscript(module, x, directory / "m", options);
}

TEST(Export, ErrorNamesTheMethodThatSpecializesASize) {
  const TemporaryDirectory directory;
  torch::nn::Linear module(2, 2);
  const auto forward = [&](const Inputs& in) { return module(in[0]); };
  const auto scaled = [&](const Inputs& in) { return in[0] * std::sin(in[0].size(0)); };
  const auto x = torch::ones({3, 2});
  EXPECT_THAT(
      [&] {
        export_torchscript(*module, forward, {x}, directory / "m", {},
                           {.traced = {{.name = "scaled",
                                        .function = scaled,
                                        .example_inputs = {x},
                                        .dynamic = {{0, 0, "batch"}}}}});
      },
      throws<std::runtime_error>("method 'scaled': "));
}

TEST_P(EachFormat, AcceptsExpandedBuffers) {
  const auto mask = module->register_buffer("mask", torch::ones({1}).expand({6}));
  write([&](const auto& x) { return x[0] + mask[0]; }, {torch::randn({4, 6})});
}

/// The tensors are constants of the trace. Their memory is reused before forward returns.
TEST_P(EachFormat, CopiesConstantsInForeignMemory) {
  const auto forward = [](const torch::Tensor& x) {
    std::array<float, 4> numbers{1, 2, 3, 4};
    std::array<int64_t, 1> length{x.size(1)};
    const auto scale = torch::from_blob(numbers.data(), {4, 1});
    const auto offset = torch::from_blob(numbers.data(), {2, 2}, [](void*) {}).slice(0, 1);
    const auto divisor = torch::from_blob(length.data(), {1}, torch::kLong);
    auto y = (x * scale + offset.sum()) / divisor;
    numbers.fill(-1);
    length.fill(-1);
    return y;
  };
  EXPECT_EQ(write(forward).max_abs_diff, 0.0);
}

TEST_P(EachFormat, AcceptsBoolScalars) {
  const auto zero = torch::zeros({1}, torch::kLong);
  const std::vector<std::function<torch::Tensor(const torch::Tensor&)>> functions{
      [](const auto& mask) { return mask.masked_fill(mask.flip(0), false); },
      [](const auto& mask) { return mask.clone().fill_(true); },
      [](const auto& mask) { return mask.logical_and(torch::full({1}, true)); },
      [](const auto& mask) { return torch::full_like(mask, true); },
      [&](const auto& mask) { return mask.index_fill(1, zero, true); },
      [&](const auto& mask) {
        return mask.scatter(1, zero.view({1, 1}), true);
      },
      [](const auto& mask) {
        return torch::constant_pad_nd(mask, {1, 0}, true);
      },
      [](const auto& mask) { return torch::where(mask, true, mask.flip(0)); },
      [](const auto& mask) { return torch::where(mask, false, true); },
      [](const auto& mask) { return mask == false; },
      [](const auto& mask) { return mask + true; }};
  for (const auto& function : functions) {
    const auto result = function(torch::tensor({{true, false}, {false, false}}));
    EXPECT_EQ(result.scalar_type(), torch::kBool);
    write([&](const torch::Tensor& x) { return function(x > 0); }, {torch::randn({4, 6})});
  }
  write([](const auto& x) { return (x + true).sum(1, /*keepdim=*/true); });
}

/// Returns large numbers that depend on small differences of attention's output, so that a rounding
/// error changes them much.
torch::Tensor large_attention(const torch::Tensor& x) {
  const auto heads = x.view({1, 2, -1, 16});
  const auto output = dot_product_attention(heads, heads.flip({-1}), heads).output;
  return (output - 0.1) * 1000;
}

/// The exported program calls LibTorch's kernels, whose results differ from those of this library
/// by more than the tolerance.
TEST_P(EachFormat, ComparesWithLibTorchsKernels) {
  const auto x = torch::randn({2, 64, 16});
  const torch::NoGradGuard no_grad;
  if (fast_kernels_are_enabled()) {
    const auto with_kernels = large_attention(x);
    const NoFastKernelsGuard guard;
    ASSERT_FALSE(large_attention(x).equal(with_kernels));
  }
  const auto forward = [](const Inputs& in) -> Outputs { return large_attention(in[0]); };
  EXPECT_EQ(GetParam().write(*module, forward, {x}, path, {}).max_abs_diff, 0.0);
}

/// Returns x + (added - subtracted). In eager mode, x is first added to a large number.
struct RoundedInEagerModeImpl : torch::nn::Module {
  explicit RoundedInEagerModeImpl(double number)
      : added(register_parameter("added", torch::full({6}, number))),
        subtracted(register_parameter("subtracted", torch::full({6}, number))) {}
  torch::Tensor forward(const torch::Tensor& x) const {
    return torch::jit::tracer::isTracing() ? x + (added - subtracted) : (x + added) - subtracted;
  }
  torch::Tensor added;
  torch::Tensor subtracted;
};

TEST_P(EachFormat, ToleranceFollowsWhatRoundingChanges) {
  const auto x = torch::rand({4, 6}) + 1;
  const auto write = [&](double number) {
    RoundedInEagerModeImpl rounded(number);
    const auto before = rounded.added.detach().clone();
    const auto forward = [&](const Inputs& in) -> Outputs { return rounded.forward(in[0]); };
    const auto report = GetParam().write(rounded, forward, {x}, path, {});
    EXPECT_TRUE(rounded.added.equal(before));
    return report.max_abs_diff;
  };
  // x + 3000 is rounded by up to 1.2e-4, which exceeds the tolerance of 1e-5 * (1 + x).
  EXPECT_GT(write(3000.0), 3e-5);
  // At most 100 times the tolerance is allowed. x + 1e6 is rounded by up to 0.03.
  EXPECT_THAT([&] { write(1e6); }, throws<std::runtime_error>("the exported program returns"));
}

/// The rounding of the weights does not explain the difference of another result.
TEST_P(EachFormat, RejectsSmallDifferencesThatRoundingDoesNotCause) {
  expect_error([](const auto& x) { return torch::jit::tracer::isTracing() ? x * 1.0001 : x * 1; },
               "the exported program returns");
}

struct GermanNumbers : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST_P(EachFormat, DoesNotDependOnTheGlobalLocale) {
  const auto scaled = [](const torch::Tensor& x) {
    return torch::pad(x.slice(1, 0, 123456) * 0.123456, {0, 1}, "constant", 1234567.5);
  };
  const auto before = std::locale::global(std::locale(std::locale(), new GermanNumbers));
  const auto german = std::locale();
  const auto report = write(scaled);
  const bool is_restored = std::locale() == german;
  std::locale::global(before);
  EXPECT_TRUE(is_restored);
  EXPECT_EQ(report.max_abs_diff, 0.0);
  const auto x = torch::randn({4, 6});
  if (GetParam().name == std::string_view("torchscript")) {
    EXPECT_TRUE(torch::jit::load(path).forward({x}).toTensor().equal(scaled(x)));
  }
  if (GetParam().name == std::string_view("pt2")) {
    EXPECT_TRUE(load_pt2(path).forward({x}).at(0).equal(scaled(x)));
  }
}

TEST_P(EachFormat, RejectsADirectoryAsPath) {
  path = directory.path();
  EXPECT_THAT([&] { write([](const auto& x) { return x + 1; }); },
              throws<InputError>("is not a regular file"));
}

TEST_P(EachFormat, RejectsValuesReadThroughDataPointers) {
  expect_error([](const auto& x) { return x + x.template data_ptr<float>()[0]; },
               "aten::add is called");
}

TEST_P(EachFormat, RejectsIntegersReadByItem) {
  const auto first = [](const torch::Tensor& x) { return x + x.flatten()[0].item<int64_t>(); };
  EXPECT_THAT(
      [&] {
        write(first, {torch::arange(24).view({4, 6})});
      },
      throws<std::runtime_error>(
          "a value was specialized: aten::add is called with the argument 0"));
}

TEST_P(EachFormat, ReportsWhetherOtherValuesWereVerified) {
  EXPECT_TRUE(write([](const auto& x) { return x + 1; }).verified_other_values);
  const auto example = torch::randn({4, 6});
  const auto strict = [&](const auto& x) {
    TORCH_CHECK(x.sizes() != example.sizes() || x.equal(example), "other values");
    return x + 1;
  };
  EXPECT_FALSE(write(strict, {example}).verified_other_values);
}

/// The values of the mask determine how many elements masked_select returns.
TEST_P(EachFormat, DoesNotSpecializeSizesThatDependOnValues) {
  const auto forward = [](const Inputs& in) {
    return std::vector{in[0].masked_select(in[0] > 0) * 2, in[0].index({in[0] > 0.5}).sum()};
  };
  const auto x = torch::tensor({{1.0, -2.0, 3.0}, {-4.0, 5.0, -6.0}});  // 3 of 6 are positive
  for (const auto& options :
       {ExportOptions{}, ExportOptions{.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}}}) {
    EXPECT_NO_THROW(GetParam().write(*module, forward, {x}, path, options));
  }
}

TEST_P(EachFormat, RejectsRangesThatTheModuleRejects) {
  const auto table = torch::randn({32});
  expect_error(
      [&](const auto& x) {
        return x + table.index({torch::ones_like(x[0]).cumsum(0).to(torch::kLong) - 1});
      },
      "the module rejects an input of shape (4, ");
}

TEST_P(EachFormat, NamesTheExampleInputsThatForwardRejects) {
  const auto forward = [](const auto& x) { return x.matmul(torch::ones({5, 2})); };
  EXPECT_THAT(
      [&] {
        write(forward, {torch::randn({4, 6})});
      },
      throws<std::runtime_error>("forward throws for the example inputs, an input of shape "
                                 "(4, 6): mat1 and mat2 shapes cannot be multiplied"));
}

/// The module mutates its buffer before it rejects values.
TEST_P(EachFormat, RestoresBuffersAfterValuesThatTheModuleRejects) {
  const auto count = module->register_buffer("count", torch::ones({1}));
  const auto forward = [&](const torch::Tensor& x) {
    count.add_(1);
    TORCH_CHECK(x.min().item<float>() > 0, "expected positive numbers");
    return x * count;
  };
  const auto example = torch::rand({4, 6}) + 0.1;
  if (std::string(GetParam().name) == "onnx") {  // ONNX has no buffers that change
    EXPECT_THAT([&] { write(forward, {example}); }, throws<std::runtime_error>("count"));
  } else {
    EXPECT_NO_THROW(write(forward, {example}));
  }
  EXPECT_EQ(count.item<float>(), 1);
}

TEST_P(EachFormat, RejectsBranchesOnValues) {
  expect_error([](const auto& x) { return x.sum().template item<float>() > 0 ? x.sin() : x.cos(); },
               "forward calls aten::");
}

TEST_P(EachFormat, AcceptsMutationOfInputs) {
  const auto x = torch::randn({4, 6});
  const auto before = x.clone();
  const auto mutates = [&] { write([](torch::Tensor in) { return in.add_(1) * 2; }, {x}); };
  if (GetParam().name == std::string("onnx")) {
    EXPECT_THAT(mutates, throws<std::runtime_error>("mutation of the input 'input0'"));
  } else {
    mutates();
  }
  EXPECT_TRUE(x.equal(before));
}

TEST_P(EachFormat, AcceptsEqualNaNs) {
  write([](const auto& x) { return x.log(); });
}

TEST_P(EachFormat, RestoresMutatedBuffers) {
  const auto count = module->register_buffer("count", torch::zeros({}));
  try {
    write([&](const auto& x) {
      count.add_(1);
      return x * count;
    });
    EXPECT_STRNE(GetParam().name, "onnx");
  } catch (const std::exception& error) {
    EXPECT_STREQ(GetParam().name, "onnx") << "ONNX does not support mutable buffers";
    EXPECT_THAT(error.what(), testing::HasSubstr("mutation of the parameter or buffer"));
  }
  EXPECT_EQ(count.item<float>(), 0.0F);
}

TEST_P(EachFormat, AcceptsSimilarSubmoduleNames) {
  module->register_module("0", torch::nn::Linear(1, 1));
  module->register_module("_0", torch::nn::Linear(1, 1));
  write([](const auto& x) { return x + 1; });
}

/// A name, and the formats that can contain the name.
struct NameRule {
  const char* name;
  std::set<std::string> formats;
};

TEST_P(EachFormat, RejectsOnlyStateNamesThatTheFormatCannotContain) {
  const std::vector<NameRule> rules{{"fc-1", {"torchscript", "pt2", "onnx"}},
                                    {"a b", {"torchscript", "pt2", "onnx"}},
                                    {"it's", {"torchscript", "pt2", "onnx"}},
                                    {"__x", {"torchscript", "pt2", "onnx"}},
                                    {"lambda", {"torchscript", "onnx"}},
                                    {"code", {"torchscript", "onnx"}},
                                    {"state_dict", {"torchscript", "onnx"}},
                                    {"torch", {"pt2", "onnx"}},
                                    {"0", {"torchscript", "pt2", "onnx"}},
                                    {"in", {"onnx"}},
                                    {"class", {"onnx"}},
                                    {"training", {"onnx"}},
                                    {"forward", {"onnx"}},
                                    {"__init__", {"onnx"}},
                                    {"say \"x\"", {"onnx"}},
                                    {"\u00e9", {"onnx"}},
                                    {"\xff", {}}};
  for (const auto& [name, formats] : rules) {
    for (const bool is_module : {false, true}) {
      torch::nn::Linear other(1, 1);
      auto weight = torch::ones({1});
      if (is_module) {
        const auto child = other->register_module(name, torch::nn::Linear(1, 1));
        weight = child->weight;
      } else {
        other->register_parameter(name, weight);
      }
      const auto export_it = [&] {
        GetParam().write(*other, [=](const Inputs& in) { return in[0] * weight; },
                         {torch::ones({2, 1})}, path, {});
      };
      if (formats.count(GetParam().name) > 0) {
        EXPECT_NO_THROW(export_it()) << name;
      } else {
        EXPECT_THAT(export_it, throws<c10::ValueError>(name));
      }
    }
  }
}

TEST_P(EachFormat, RejectsOnlyInputNamesThatTheFormatCannotContain) {
  const std::vector<NameRule> rules{{"x", {"torchscript", "pt2", "onnx"}},
                                    {"p_weight", {"torchscript", "pt2", "onnx"}},
                                    {"device", {"torchscript", "onnx"}},
                                    {"fork", {"pt2", "onnx"}},
                                    {"self", {"onnx"}},
                                    {"in", {"onnx"}},
                                    {"inf", {"onnx"}},
                                    {"fc-1", {"onnx"}},
                                    {"\u00e9", {"onnx"}},
                                    {"0", {"onnx"}},
                                    {"", {}}};
  for (const auto& [name, formats] : rules) {
    const auto export_it = [&, &name = name] {
      GetParam().write(*module, [&](const Inputs& in) { return module(in[0]) * 2; },
                       {torch::ones({2, 1})}, path,
                       {.input_names = {name}, .dynamic = {{0, 0, "any name"}}});
    };
    if (formats.count(GetParam().name) > 0) {
      EXPECT_NO_THROW(export_it()) << name;
    } else {
      EXPECT_THAT(export_it, throws<c10::ValueError>(name));
    }
  }
}

TEST_P(EachFormat, RejectsExtraFilesOutsideTheFolder) {
  for (const char* name : {"", "../x", "/x", "a/../../x"}) {
    EXPECT_THAT(
        [&] {
          GetParam().write(*module, [](const Inputs& in) { return in[0]; }, {torch::zeros({1})},
                           path, {.extra_files = {{name, "text"}}});
        },
        throws<c10::ValueError>("extra file"));
  }
}

TEST_P(EachFormat, AcceptsModelsWithShortContexts) {
  for (int64_t context = 1; context <= 6; ++context) {
    LanguageModel model(
        LanguageModelConfig{.vocab_size = 5,
                            .max_seq_len = context,
                            .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}});
    const auto plan = plan_export(model);
    const auto write = [&] {
      return GetParam().write(*model, plan.forward, plan.example_inputs, path, plan.options);
    };
    if (context == 2 && GetParam().name == std::string("pt2")) {
      EXPECT_THAT(write, throws<c10::ValueError>("'length': found the sizes 1 to 2"));
    } else {
      EXPECT_THAT(write().values_read, testing::IsEmpty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, EachFormat, testing::ValuesIn(kFormats),
                         [](const auto& format) { return std::string(format.param.name); });
INSTANTIATE_TEST_SUITE_P(Exports, OneFormat, testing::Values(kFormats[1]));

TEST(Exports, RejectDimensionsSqueezedAtSizeOneInPt2AndOnnx) {
  const TemporaryDirectory directory;
  torch::nn::Linear module(1, 1);
  const auto squeezed = [](const Inputs& in) {
    return torch::cat({in[0].squeeze(0), in[0].squeeze(0)});
  };
  const ExportOptions options{.dynamic = {{0, 0, "batch"}}};
  for (const auto& format : {kFormats[1], kFormats[2]}) {
    EXPECT_THAT(
        [&] {
          format.write(*module, squeezed, {torch::randn({2, 6})}, directory / "file", options);
        },
        throws<std::runtime_error>("dimensions"));
  }
}

TEST(Exports, KeepDtypesOfEmptyWeights) {
  const TemporaryDirectory directory;
  torch::nn::Linear module(1, 1);
  module->register_parameter("none", torch::zeros({0, 3}));
  module->register_buffer("nothing", torch::zeros({0}, torch::kLong));
  export_pt2(module, torch::randn({2, 1}), directory / "file", {});
  const auto state = load_pt2(directory / "file").state_dict();
  EXPECT_EQ(state.at("none").scalar_type(), torch::kFloat);
  EXPECT_EQ(state.at("none").sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(state.at("nothing").scalar_type(), torch::kLong);
}

}  // namespace
}  // namespace attend
