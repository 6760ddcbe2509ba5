#include "attend/pt2/pt2_contents.h"

#include "attend/export/pt2.h"
#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

struct Pt2ContentsTest : testing::Test {
  Pt2ContentsTest() {
    const torch::nn::Linear linear(3, 2);
    linear->bias.set_requires_grad(false);
    export_pt2(linear, torch::ones({2, 3}), path,
               {.input_names = {"x"},
                .dynamic = {{0, 0, "batch", 1, 8}},
                .extra_files = {{"notes.txt", "seven b"}}});
  }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "linear.pt2";
};

TEST_F(Pt2ContentsTest, ReturnsTensorsInputsOperatorsAndExtraFiles) {
  const auto contents = pt2_contents(path);
  ASSERT_EQ(contents.tensors.size(), 2U);
  EXPECT_EQ(contents.tensors[0].name, "weight");
  EXPECT_THAT(contents.tensors[0].shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(contents.tensors[0].role, TensorRole::parameter);
  EXPECT_EQ(contents.tensors[1].role, TensorRole::frozen);
  EXPECT_THAT(contents.inputs, testing::ElementsAre("x: float32 (s0 = 1..8, 3)"));
  EXPECT_THAT(contents.operators,
              testing::ElementsAre(testing::Pair("aten::addmm", 1), testing::Pair("aten::t", 1)));
  EXPECT_THAT(contents.extra_files, testing::ElementsAre(testing::Pair("notes.txt", 7)));
}

TEST_F(Pt2ContentsTest, RejectsATruncatedFile) {
  const auto whole = read_bytes(path);
  replace_file(path, whole.substr(0, whole.size() / 2));
  EXPECT_THAT([&] { pt2_contents(path); }, throws<InputError>("linear.pt2: "));
}

}  // namespace
}  // namespace attend
