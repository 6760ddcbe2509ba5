#include "attend/module_ref.h"

#include "attend/io/safetensors.h"
#include "attend/io/tensor_info.h"
#include "attend/models/language_model.h"
#include "attend/nn/eval_guard.h"
#include "attend/nn/freezing.h"
#include "attend/nn/initialization.h"
#include "attend/nn/parameter_count.h"
#include "attend/nn/parameter_groups.h"
#include "attend/nn/trainable_parameters.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

LanguageModel tiny_model() {
  return LanguageModel(LanguageModelConfig{
      .vocab_size = 5, .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 4}});
}

struct ModuleRefTest : testing::Test {
  LanguageModel model = tiny_model();
  const LanguageModel constant = model;
  std::shared_ptr<torch::nn::Module> pointer = model.ptr();
};

TEST_F(ModuleRefTest, FunctionsThatReadTakeModulesHoldersPointersAndTemporaries) {
  const auto names = [](ConstModuleRef module) { return state_dict(module).size(); };
  const auto expected = state_dict(*model).size();
  EXPECT_EQ(state_dict(model).size(), expected);
  EXPECT_EQ(state_dict(constant).size(), expected);
  EXPECT_EQ(state_dict(tiny_model()).size(), expected);
  EXPECT_EQ(names(pointer), expected);
  EXPECT_EQ(names(ModuleRef(model)), expected);
  EXPECT_EQ(parameter_count(constant), parameter_count(*model));
  EXPECT_EQ(parameter_groups(constant).decay.size(), parameter_groups(*model).decay.size());
  EXPECT_EQ(trainable_parameters(tiny_model()).size(), trainable_parameters(*model).size());
  EXPECT_EQ(tensors_of(constant).size(), tensors_of(*model).size());
}

TEST_F(ModuleRefTest, FunctionsThatChangeTakeConstantHolders) {
  freeze(constant);
  EXPECT_TRUE(trainable_parameters(model).empty());
  unfreeze(constant);
  EXPECT_FALSE(trainable_parameters(pointer).empty());
  initialize_gpt2(constant, 1);
  initialize_xavier(constant);
  initialize_bloem(tiny_model());
  const EvalGuard eval(constant);
  EXPECT_FALSE(model->is_training());
}

TEST_F(ModuleRefTest, EmptyHoldersThrow) {
  EXPECT_THROW(freeze(LanguageModel(nullptr)), c10::Error);
  EXPECT_THROW(state_dict(LanguageModel(nullptr)), c10::Error);
}

}  // namespace
}  // namespace attend
