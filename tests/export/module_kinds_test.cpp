// The exporters take the kinds of modules that ModuleRef accepts.
#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/ops/fast_kernels.h"
#include "attend/pt2/pt2_program.h"
#include "support/onnx_file.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

/// A module without a holder.
struct Scale : torch::nn::Module {
  explicit Scale(double factor = 3.0) {
    weight = register_parameter("weight", torch::full({4}, factor));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x * weight + 1; }

  torch::Tensor weight;
};

struct ScaleHolder : torch::nn::ModuleHolder<Scale> {
  using torch::nn::ModuleHolder<Scale>::ModuleHolder;
};

struct ModuleKinds : testing::Test {
  /// Exports a module in all formats, as a module of one tensor, and compares the outputs of the
  /// files.
  template <typename Module>
  void export_and_run(Module&& module, const torch::Tensor& expected) {
    export_torchscript(module, x, directory / "module.pt", options);
    auto script = torch::jit::load(directory / "module.pt");
    EXPECT_TRUE(torch::equal(script.forward({x}).toTensor(), expected));
    export_pt2(module, x, directory / "module.pt2", options);
    EXPECT_TRUE(torch::equal(load_pt2(directory / "module.pt2").forward({x}).at(0), expected));
    export_onnx(module, x, directory / "module.onnx", options);
    EXPECT_FALSE(read_onnx(directory / "module.onnx").initializers.empty());
  }
  /// Exports a module in all formats, with a forward function of two tensors.
  template <typename Module>
  void export_with_forward(const Module& module, const Forward& forward) {
    const auto expected = forward({x, x}).tensors.at(0);
    export_torchscript(module, forward, {x, x}, directory / "module.pt", {});
    auto script = torch::jit::load(directory / "module.pt");
    EXPECT_TRUE(torch::equal(script.forward({x, x}).toTensor(), expected));
    export_pt2(module, forward, {x, x}, directory / "module.pt2", {});
    EXPECT_TRUE(torch::equal(load_pt2(directory / "module.pt2").forward({x, x}).at(0), expected));
    export_onnx(module, forward, {x, x}, directory / "module.onnx", {});
    EXPECT_THAT(read_onnx(directory / "module.onnx").initializers, testing::ElementsAre("weight"));
  }

  const TemporaryDirectory directory;
  const torch::NoGradGuard no_grad;
  const NoInferenceKernelsGuard no_kernels;  // so that outputs are equal
  const torch::Tensor x = torch::randn({2, 4});
  const ExportOptions options{.dynamic = {{0, 0, "batch"}}};
};

TEST_F(ModuleKinds, Holder) {
  ScaleHolder module(2.0);
  export_and_run(module, x * 2 + 1);
  const auto constant = module;
  export_and_run(constant, x * 2 + 1);
  export_and_run(ScaleHolder(4.0), x * 4 + 1);
  export_with_forward(module, [&](const auto& in) { return module(in[0]) + in[1]; });
}

TEST_F(ModuleKinds, HolderOfLibTorch) {
  torch::nn::Sequential module(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
  export_and_run(module, module->forward(x));
}

TEST_F(ModuleKinds, SharedPointer) {
  const auto module = std::make_shared<Scale>();
  export_and_run(module, x * 3 + 1);
  export_and_run(std::make_shared<Scale>(5.0), x * 5 + 1);
  export_with_forward(module, [&](const auto& in) { return module->forward(in[0]) + in[1]; });
  const std::shared_ptr<torch::nn::Module> base = module;
  export_with_forward(base, [&](const auto& in) { return module->forward(in[0]) * in[1]; });
}

TEST_F(ModuleKinds, NullPointerIsAnError) {
  const std::shared_ptr<Scale> none;
  EXPECT_THAT([&] { export_torchscript(none, x, directory / "module.pt", options); },
              throws<c10::ValueError>("found a null pointer"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "a file was left behind";
}

TEST_F(ModuleKinds, OwnModule) {
  Scale module;
  export_and_run(module, x * 3 + 1);
  module.weight.fill_(2.0);  // the forward function refers to the module
  export_and_run(module, x * 2 + 1);
  torch::nn::Module& base = module;
  const Forward forward = [&](const auto& in) { return module.forward(in[0]) + in[1]; };
  export_torchscript(base, forward, {x, x}, directory / "module.pt", {});
  export_pt2(module, forward, {x, x}, directory / "module.pt2", {});
  export_onnx(module, forward, {x, x}, directory / "module.onnx", {});
  EXPECT_THAT(read_onnx(directory / "module.onnx").initializers, testing::ElementsAre("weight"));
}

TEST_F(ModuleKinds, AnyModule) {
  torch::nn::AnyModule module(ScaleHolder(2.0));
  export_and_run(module, x * 2 + 1);
  const auto copy = module;
  export_and_run(copy, x * 2 + 1);
  export_with_forward(module, [&](const auto& in) { return module.forward(in[0]) + in[1]; });
}

TEST_F(ModuleKinds, ForwardsOwnTheirModules) {
  const auto forward_of_pointer = forward_of(std::make_shared<Scale>(2.0));
  const auto forward_of_holder = forward_of(ScaleHolder(3.0));
  const auto forward_of_any = forward_of(torch::nn::AnyModule(ScaleHolder(4.0)));
  EXPECT_TRUE(torch::equal(forward_of_pointer({x}).tensors.at(0), x * 2 + 1));
  EXPECT_TRUE(torch::equal(forward_of_holder({x}).tensors.at(0), x * 3 + 1));
  EXPECT_TRUE(torch::equal(forward_of_any({x}).tensors.at(0), x * 4 + 1));
}

}  // namespace
}  // namespace attend
