// What every format refuses, since the file would be another than the module, and what it takes.
#include "attend/export/export_plan.h"
#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/pt2_program.h"
#include "attend/export/torchscript.h"
#include "attend/input_error.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <torch/nn/modules/linear.h>

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
  /// Of x (4, 6), with a dynamic length of up to 64.
  ExportReport write(const std::function<Outputs(const torch::Tensor&)>& function,
                     const Inputs& example = {torch::randn({4, 6})}) {
    const auto forward = [&](const Inputs& in) { return function(in[0]); };
    return GetParam().write(*module, forward, example, path,
                            {.dynamic = {{0, 1, "length", 1, 64}}});
  }
  void refuses(const std::function<Outputs(const torch::Tensor&)>& function, const char* why) {
    EXPECT_THAT([&] { write(function); }, throws<std::runtime_error>(why));
    EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file is left behind";
  }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "file";
  torch::nn::Linear module{1, 1};
};

TEST_P(EachFormat, RefusesASizeThatIsFrozenAtTheEndOfItsBounds) {
  refuses([](const auto& x) { return x.size(1) > 16 ? x * 2 : x + 1; }, "aten::add");
}

TEST_P(EachFormat, RefusesRemaindersOfSizes) {
  for (const int64_t divisor : {2, 3, 4}) {
    refuses([&](const auto& x) { return x * (1.0 + static_cast<double>(x.size(1) % divisor)); },
            "aten::mul is called with");
  }
}

TEST_P(EachFormat, RefusesBranchesOnSizesFarFromTheExamples) {
  const auto branches = [](const Inputs& in) { return in[0].size(1) > 50 ? in[0] * 2 : in[0] + 1; };
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, branches, {torch::randn({4, 6})}, path,
                         {.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}});
      },
      throws<std::runtime_error>("a size was frozen: "));
}

TEST_P(EachFormat, RefusesOffsetsAndFlagsThatWereReadIntoNumbers) {
  const auto offset = [](const Inputs& in) { return in[0] * in[1].item<int64_t>(); };
  const auto flag = [](const Inputs& in) { return in[1].item<bool>() ? in[0] * 2 : in[0] + 1; };
  const ExportOptions options{.dynamic = {{0, 0, "batch"}, {0, 1, "length"}}};
  const auto x = torch::randn({4, 6});
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, offset, {x, torch::tensor(3)}, path, options);
      },
      throws<std::runtime_error>("a value was frozen: aten::mul is called with 3"));
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, flag, {x, torch::tensor(true)}, path, options);
      },
      throws<std::runtime_error>("a value was frozen: "));
}

TEST_P(EachFormat, RefusesAForwardThatChangesAParameter) {
  refuses(
      [&](const auto& x) {
        const torch::NoGradGuard no_grad;
        return x + module->bias.add_(1);
      },
      "parameter");
}

TEST_P(EachFormat, TakesBuffersThatCannotBeWritten) {
  const auto mask = module->register_buffer("mask", torch::ones({1}).expand({6}));
  write([&](const auto& x) { return x[0] + mask[0]; }, {torch::randn({4, 6})});
}

TEST_P(EachFormat, LeavesAloneWhatIsNoFile) {
  path = directory.path();
  EXPECT_THAT([&] { write([](const auto& x) { return x + 1; }); },
              throws<InputError>("is not a file"));
}

TEST_P(EachFormat, RefusesValuesThatWereReadIntoNumbers) {
  refuses([](const auto& x) { return x + x.template data_ptr<float>()[0]; }, "aten::add is called");
}

TEST_P(EachFormat, RefusesValuesOfWholeNumbersThatWereReadIntoNumbers) {
  const auto first = [](const torch::Tensor& x) { return x + x.flatten()[0].item<int64_t>(); };
  EXPECT_THAT(
      [&] {
        write(first, {torch::arange(24).view({4, 6})});
      },
      throws<std::runtime_error>("a value was frozen: aten::add is called with 0"));
}

TEST_P(EachFormat, RefusesBoundsThatTheModuleDoesNotTake) {
  const auto table = torch::randn({32});
  refuses(
      [&](const auto& x) {
        return x + table.index({torch::ones_like(x[0]).cumsum(0).to(torch::kLong) - 1});
      },
      "which the bounds of the dynamic dimensions allow");
}

TEST_P(EachFormat, RefusesBranchesOnValues) {
  refuses([](const auto& x) { return x.sum().template item<float>() > 0 ? x.sin() : x.cos(); },
          "the module calls aten::");
}

TEST_P(EachFormat, TakesAForwardThatChangesItsInput) {
  const auto x = torch::randn({4, 6});
  const auto before = x.clone();
  write([](torch::Tensor in) { return in.add_(1) * 2; }, {x});
  EXPECT_TRUE(x.equal(before));
}

TEST_P(EachFormat, TakesOutputsThatAreNaNInBoth) {
  write([](const auto& x) { return x.log(); });
}

TEST_P(EachFormat, GivesBuffersBackThatTheForwardChanges) {
  const auto count = module->register_buffer("count", torch::zeros({}));
  try {
    write([&](const auto& x) {
      count.add_(1);
      return x * count;
    });
    EXPECT_STRNE(GetParam().name, "onnx");
  } catch (const std::exception& error) {
    EXPECT_STREQ(GetParam().name, "onnx") << "which has no state that changes";
    EXPECT_THAT(error.what(), testing::HasSubstr("changes a parameter or buffer"));
  }
  EXPECT_EQ(count.item<float>(), 0.0F);
}

TEST_P(EachFormat, TakesModulesWhoseNamesAreAlike) {
  module->register_module("0", torch::nn::Linear(1, 1));
  module->register_module("_0", torch::nn::Linear(1, 1));
  write([](const auto& x) { return x + 1; });
}

TEST_P(EachFormat, RefusesNamesThatAFileCannotHold) {
  for (const char* name : {"a-b", "class", "training", "__init__", "code", "state_dict"}) {
    torch::nn::Linear other(1, 1);
    other->register_parameter(name, torch::zeros({1}));
    EXPECT_THAT(
        [&] {
          GetParam().write(*other, [](const Inputs& in) { return in[0]; }, {torch::zeros({1})},
                           path, {});
        },
        throws<c10::ValueError>(name));
  }
  EXPECT_THAT(
      [&] {
        GetParam().write(*module, [](const Inputs& in) { return in[0]; }, {torch::zeros({1})}, path,
                         {.input_names = {"self"}});
      },
      throws<c10::ValueError>("found 'self'"));
}

TEST_P(EachFormat, RefusesExtraFilesOutsideOfTheirFolder) {
  for (const char* name : {"", "../x", "/x", "a/../../x"}) {
    EXPECT_THAT(
        [&] {
          GetParam().write(*module, [](const Inputs& in) { return in[0]; }, {torch::zeros({1})},
                           path, {.extra_files = {{name, "text"}}});
        },
        throws<c10::ValueError>("extra file"));
  }
}

TEST_P(EachFormat, TakesModelsOfShortContexts) {
  for (int64_t context = 1; context <= 6; ++context) {
    LanguageModel model(LanguageModelConfig{
        .vocab_size = 5, .context = context, .stack = {.layers = 1, .heads = 2, .embed_dim = 8}});
    const auto plan = plan_export(model);
    GetParam().write(*model, plan.forward, plan.example_inputs, path, plan.options);
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, EachFormat, testing::ValuesIn(kFormats),
                         [](const auto& format) { return std::string(format.param.name); });

TEST(Exports, OfGraphsRefuseDimensionsThatAreGoneAtASizeOfOne) {
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

TEST(Exports, KeepTheDtypesOfEmptyWeights) {
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
