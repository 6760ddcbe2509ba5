// Exported models with low-rank adapters.
#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/model_export/export_plan.h"
#include "attend/nn/lora.h"
#include "attend/pt2/pt2_program.h"
#include "support/close.h"
#include "support/lora.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/script.h>

namespace attend {
namespace {

struct ExportedAdapters : FixedSeed, testing::Test {
  TemporaryDirectory directory;
};

TEST_F(ExportedAdapters, FilesGiveTheOutputsOfTheModelAndOfMergedWeights) {
  LanguageModelConfig config{.vocab_size = 11, .max_seq_len = 8};
  config.stack = {.num_layers = 2, .num_heads = 2, .embed_dim = 8};
  config.stack.activation = Activation::swiglu;
  LanguageModel model(config);
  add_lora(model, {.rank = 2});
  draw_adapters(model);
  model->eval();
  const torch::NoGradGuard no_grad;
  for (const bool is_merged : {false, true}) {
    if (is_merged) merge_lora(model);
    const auto tokens = torch::randint(11, {3, 5}, torch::kLong);
    const auto expected = merged_copy(model)->forward(tokens);
    const auto plan = plan_export(model);

    export_torchscript(plan, directory / "model.pt");
    auto file = torch::jit::load((directory / "model.pt").string());
    EXPECT_TRUE(close(file.forward({tokens}).toTensor(), expected, 1e-5)) << is_merged;

    export_pt2(plan, directory / "model.pt2");
    EXPECT_TRUE(close(load_pt2(directory / "model.pt2").forward({tokens})[0], expected, 1e-5))
        << is_merged;

    EXPECT_LT(export_onnx(plan, directory / "model.onnx").max_abs_diff, 1e-5) << is_merged;
  }
}

TEST_F(ExportedAdapters, LayersThatDoNotUseThemAreRefused) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4));
  add_lora(net, {.rank = 2, .targets = {"0"}});
  ExportPlan plan{
      .model = net.ptr(),
      .forward =
          [net](const std::vector<torch::Tensor>& in) mutable { return net->forward(in[0]); },
      .example_inputs = {torch::randn({2, 4})},
      .options = {},
      .methods = {}};
  EXPECT_THAT([&] { export_torchscript(plan, directory / "net.pt"); },
              throws_naming<c10::ValueError>("0", "merge_lora"));
  merge_lora(net);
  EXPECT_NO_THROW(export_torchscript(plan, directory / "net.pt"));
}

}  // namespace
}  // namespace attend
