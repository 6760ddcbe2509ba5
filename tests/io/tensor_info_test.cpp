#include "attend/io/tensor_info.h"

#include "attend/io/safetensors.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>

namespace attend {
namespace {

TEST(TensorsOf, ListsNamesShapesDtypesAndRolesOfAModule) {
  torch::nn::BatchNorm1d norm(3);
  norm->weight.set_requires_grad(false);
  const auto tensors = tensors_of(*norm);
  ASSERT_EQ(tensors.size(), 5U);
  EXPECT_EQ(tensors[0].name, "weight");
  EXPECT_EQ(tensors[0].role, TensorRole::frozen);
  EXPECT_EQ(tensors[1].role, TensorRole::parameter);
  EXPECT_EQ(tensors[2].name, "running_mean");
  EXPECT_EQ(tensors[2].role, TensorRole::buffer);
  EXPECT_THAT(tensors[2].shape, testing::ElementsAre(3));
  EXPECT_EQ(tensors[2].dtype, "float32");
  EXPECT_EQ(tensors[2].bytes, 12);
  EXPECT_EQ(tensors[4].dtype, "int64");

  const auto totals = totals_of(tensors);
  EXPECT_EQ(totals.tensors, 5);
  EXPECT_EQ(totals.elements, 13);
  EXPECT_EQ(totals.trainable, 3);
  EXPECT_EQ(totals.frozen, 3);
  EXPECT_EQ(totals.buffers, 7);
  EXPECT_EQ(totals.bytes, 4 * 12 + 8);
}

TEST(TensorsOf, SharedStorageIsCountedOnce) {
  TensorList list;
  const auto tensor = torch::ones({2, 3});
  list.add("table", tensor, /*is_buffer=*/true);
  list.add("head", tensor, /*is_buffer=*/true);
  list.add("other", torch::ones({2, 3}), /*is_buffer=*/true);
  EXPECT_EQ(list.tensors()[1].alias_of, "table");
  EXPECT_EQ(list.tensors()[2].alias_of, "");
  EXPECT_EQ(totals_of(list.tensors()).elements, 12);
}

TEST(TensorsOf, EmptyTensorsAreNotAliases) {
  TensorList list;
  list.add("a", torch::ones({0}), /*is_buffer=*/true);
  list.add("b", torch::ones({0}), /*is_buffer=*/true);
  EXPECT_EQ(list.tensors()[1].alias_of, "");
}

TEST(TensorsOf, FileAndModuleListTheSameTensors) {
  const TemporaryDirectory directory;
  const torch::nn::BatchNorm1d norm(3);
  save_safetensors(directory / "norm", {.tensors = state_dict(*norm), .metadata = {{"a", "b"}}});
  const auto header = read_safetensors_header(directory / "norm");
  EXPECT_EQ(header.metadata.at("a"), "b");
  for (const auto& expected : tensors_of(*norm)) {
    const auto tensors = tensors_of(header);
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) {
      return tensor.name == expected.name;
    });
    ASSERT_NE(found, tensors.end()) << expected.name;
    EXPECT_EQ(found->shape, expected.shape);
    EXPECT_EQ(found->dtype, expected.dtype);
    EXPECT_EQ(found->bytes, expected.bytes);
    EXPECT_EQ(found->elements, expected.elements);
    EXPECT_EQ(found->role, TensorRole::unknown);
  }
}

}  // namespace
}  // namespace attend
