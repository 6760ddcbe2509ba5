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

TEST_F(OnnxContentsTest, WeightsOutsideOfTheSecondFileThrow) {
  const torch::nn::Linear linear(torch::nn::LinearOptions(32, 32).bias(false));
  export_onnx(linear, torch::ones({1, 32}), path, {}, {.external_data = true});
  const auto second = directory / "linear.onnx.data";
  EXPECT_EQ(onnx_contents(path).tensors.at(0).bytes, 4096);
  const auto whole = read_bytes(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    auto bytes = whole;
    bytes.replace(bytes.find(from), from.size(), to);  // of the same length
    replace_file(path, bytes);
  };
  const auto rejects = [&](const std::string& text) {
    EXPECT_THAT([&] { onnx_contents(path); }, throws_naming<InputError>(path.string(), text));
  };
  with("linear.onnx.data", "../near.onnx.dat");
  rejects("../near.onnx.dat");
  with("linear.onnx.data", "/inear.onnx.data");
  rejects("/inear.onnx.data");
  with("linear.onnx.data", "absent.onnx.data");
  rejects("absent.onnx.data");
  with("4096", "-096");
  rejects("-096");
  with("4096", "4095");
  rejects("4095");
  replace_file(path, whole);
  replace_file(second, read_bytes(second).substr(1));
  rejects("4096");
  // A link that leads out of the folder.
  const TemporaryDirectory other;
  replace_file(other / "data", std::string(4096, 'x'));
  std::filesystem::remove(second);
  std::filesystem::create_symlink(other / "data", second);
  rejects("linear.onnx.data");
}

}  // namespace
}  // namespace attend
