#include "attend/export/onnx_translation.h"

#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/pt2/pt2_program.h"
#include "support/onnx_file.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "support/user_operators.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/serialization/import.h>

namespace attend {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::ThrowsMessage;

const ExportOptions kDynamicBatch{.dynamic = {{0, 0, "batch"}}};

struct CallsUserOperators : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const auto [low, high] = user::bounds(user::clip_below(x, -0.5), {1});
    return user::gelu(high - low);
  }
};

struct CallsUntranslatedOperator : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return user::untranslated(x) + 1; }
};

TEST(OnnxTranslation, NodesThatOnnxDoesNotAllowThrow) {
  const TemporaryDirectory directory;
  register_onnx_translation("aten::lgamma", [](OnnxCall& call) {
    call.set_output(call.add("Relu", {call.tensor("self")}, {{"slope", int64_t{1}}}));
  });
  register_onnx_translation("aten::i0", [](OnnxCall& call) {  // of another shape
    call.set_output(call.add("ReduceSum", {call.tensor("self")}, {{"keepdims", int64_t{0}}}));
  });
  struct Lgamma : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x.lgamma(); }
  };
  struct I0 : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x.i0(); }
  };
  const auto run = [&](const auto& module) {
    export_onnx(module, torch::ones({2, 3}), directory / "model.onnx", kDynamicBatch);
  };
  EXPECT_THAT([&] { run(std::make_shared<Lgamma>()); },
              throws_naming<std::runtime_error>("Relu", "slope"));
  EXPECT_THAT([&] { run(std::make_shared<I0>()); }, testing::Throws<std::runtime_error>());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(OnnxTranslation, AddsNodes) {
  user::register_translations();
  const TemporaryDirectory directory;
  CallsUserOperators module;
  export_onnx(module, torch::randn({3, 4}), directory / "m", kDynamicBatch);
  EXPECT_THAT(read_onnx(directory / "m").operators,
              IsSupersetOf({"Max", "ReduceMin", "ReduceMax", "Sub", "Gelu"}));
}

TEST(OnnxTranslation, MissingOneIsAnErrorThatSaysHowToAddIt) {
  const TemporaryDirectory directory;
  CallsUntranslatedOperator module;
  EXPECT_THAT(
      [&] {
        export_onnx(module, torch::randn({3, 4}), directory / "m", kDynamicBatch);
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("attend_test::untranslated is not supported by the ONNX exporter"),
                HasSubstr("call register_onnx_translation(\"attend_test::untranslated\", ...)"))));
}

TEST(OnnxTranslation, ReplacesThatOfTheExporter) {
  register_onnx_translation("aten::erfc", [](OnnxCall& call) {
    call.set_output(call.add("attend_test::Erfc", {call.tensor("self")}, {{"terms", 3}}));
  });
  const TemporaryDirectory directory;
  torch::nn::Module module;
  export_onnx(
      module, [](const auto& in) { return in.at(0).erfc(); }, {torch::randn({3, 4})},
      directory / "m", kDynamicBatch);
  EXPECT_THAT(read_onnx(directory / "m").operators, ElementsAre("Erfc", "Identity"));
  EXPECT_THAT(read_onnx(directory / "m").domains, Contains("attend_test"));
}

TEST(OnnxTranslation, IsRegisteredOnceForAnExistingOperator) {
  const auto nothing = [](OnnxCall&) {};
  EXPECT_THAT([&] { register_onnx_translation("attend_test::no_such_operator", nothing); },
              throws<c10::ValueError>("found 'attend_test::no_such_operator'"));
  EXPECT_THAT([&] { register_onnx_translation("attend_test::clip_below", nothing); },
              throws<c10::ValueError>("found 'attend_test::clip_below'"));
  EXPECT_THAT([&] { register_onnx_translation("no operator", nothing); },
              throws<c10::ValueError>("found 'no operator'"));
  user::register_translations();
  EXPECT_THAT([&] { register_onnx_translation("attend_test::gelu", nothing); },
              throws<c10::ValueError>("a translation of 'attend_test::gelu' has been registered"));
}

TEST(OnnxTranslation, ErrorsNameTheOperator) {
  register_onnx_translation("aten::special_i0e", [](OnnxCall& call) { call.fail("no, sorry"); });
  register_onnx_translation("aten::special_i1e",
                            [](OnnxCall& call) { call.set_output(call.tensor("self"), 1); });
  const TemporaryDirectory directory;
  torch::nn::Module module;
  const auto export_function = [&](const Forward& forward) {
    export_onnx(module, forward, {torch::randn({3, 4})}, directory / "m", kDynamicBatch);
  };
  EXPECT_THAT(
      [&] { export_function([](const auto& in) { return torch::special_i0e(in.at(0)); }); },
      throws<std::runtime_error>("aten::special_i0e cannot be exported to ONNX: no, sorry"));
  EXPECT_THAT(
      [&] { export_function([](const auto& in) { return torch::special_i1e(in.at(0)); }); },
      throws<std::runtime_error>("aten::special_i1e cannot be exported to ONNX: the index of an "
                                 "output (1) must be less than the number of outputs (1)"));
}

TEST(UserOperators, AreInTorchScriptFiles) {
  const TemporaryDirectory directory;
  CallsUserOperators module;
  const auto x = torch::randn({3, 4});
  export_torchscript(module, x, directory / "m", kDynamicBatch);
  auto loaded = torch::jit::load(directory / "m");
  EXPECT_TRUE(torch::equal(loaded.forward({x}).toTensor(), module.forward(x)));
}

TEST(UserOperators, AreInPt2Archives) {
  const TemporaryDirectory directory;
  CallsUserOperators module;
  const auto x = torch::randn({3, 4});
  export_pt2(module, x, directory / "m", kDynamicBatch);
  auto loaded = load_pt2(directory / "m", {.namespaces = {"attend_test"}});
  EXPECT_TRUE(torch::equal(loaded.forward({x}).at(0), module.forward(x)));
}

}  // namespace
}  // namespace attend
