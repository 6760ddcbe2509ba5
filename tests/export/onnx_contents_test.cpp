#include "attend/export/onnx_contents.h"

#include "attend/export/onnx.h"
#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::Pair;

struct OnnxContentsTest : testing::Test {
  OnnxContentsTest() {
    const torch::nn::Linear linear(3, 2);
    export_onnx(linear, torch::ones({1, 3}), path,
                {.input_names = {"x"},
                 .output_names = {"y"},
                 .dynamic = {{0, 0, "batch"}},
                 .extra_files = {{"notes.txt", "seven b"}}});
  }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "linear.onnx";
};

TEST_F(OnnxContentsTest, ReturnsTensorsInputsOutputsAndMetadata) {
  const auto contents = onnx_contents(path);
  EXPECT_THAT(contents.inputs, ElementsAre("x: float32 (batch, 3)"));
  EXPECT_THAT(contents.outputs, ElementsAre("y: float32 (batch, 2)"));
  EXPECT_EQ(contents.opset, 18);
  EXPECT_FALSE(contents.operators.empty());
  EXPECT_THAT(contents.metadata, testing::Contains(Pair("notes.txt", "seven b")));
  int64_t elements = 0;
  for (const auto& tensor : contents.tensors) {
    EXPECT_EQ(tensor.dtype, "float32") << tensor.name;
    EXPECT_EQ(tensor.bytes, 4 * tensor.elements) << tensor.name;
    elements += tensor.elements;
  }
  EXPECT_EQ(elements, 8);  // weight and bias
}

TEST_F(OnnxContentsTest, DamagedFilesThrow) {
  const auto whole = read_bytes(path);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{5}, whole.size() / 2}) {
    replace_file(path, whole.substr(0, bytes));
    EXPECT_THAT([&] { onnx_contents(path); }, throws_naming<InputError>(path.string())) << bytes;
  }
}

}  // namespace
}  // namespace attend
