#include "attend/export/torchscript_contents.h"

#include "attend/export/torchscript.h"
#include "attend/input_error.h"
#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

struct TorchScriptContentsTest : testing::Test {
  TorchScriptContentsTest() {
    const torch::nn::Linear linear(3, 2);
    export_torchscript(linear, torch::ones({1, 3}), path,
                       {.input_names = {"x"},
                        .dynamic = {{0, 0, "batch"}},
                        .extra_files = {{"notes.txt", "seven b"}}});
  }

  TemporaryDirectory directory;
  std::filesystem::path path = directory / "linear.pt";
};

TEST_F(TorchScriptContentsTest, ReturnsTensorsMethodsAndExtraFiles) {
  const auto contents = torchscript_contents(path);
  ASSERT_EQ(contents.tensors.size(), 2U);
  EXPECT_EQ(contents.tensors[0].name, "weight");
  EXPECT_THAT(contents.tensors[0].shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(contents.tensors[0].role, TensorRole::parameter);
  EXPECT_THAT(contents.methods, testing::ElementsAre("forward(Tensor x) -> Tensor"));
  EXPECT_THAT(contents.extra_files, testing::ElementsAre(testing::Pair("notes.txt", 7)));
}

TEST_F(TorchScriptContentsTest, RejectsATruncatedFileWithAOneLineMessage) {
  const auto whole = read_bytes(path);
  for (const double fraction : {0.1, 0.5, 0.99}) {
    const auto cut = static_cast<std::size_t>(static_cast<double>(whole.size()) * fraction);
    replace_file(path, whole.substr(0, cut));
    EXPECT_THAT([&] { torchscript_contents(path); },
                testing::ThrowsMessage<InputError>(testing::AllOf(
                    testing::HasSubstr("linear.pt: "), testing::Not(testing::HasSubstr("\n")))));
  }
}

TEST_F(TorchScriptContentsTest, RejectsOtherFormatsAndNamesThem) {
  const std::vector<std::pair<const char*, const char*>> kinds{
      {"data.pkl",
       "linear.pt: expected a safetensors, TorchScript or .pt2 file, found a Python pickle"},
      {"models/model.json", "linear.pt: expected a TorchScript file, found a .pt2 file"},
      {"word/document.xml", "found a zip archive without a TorchScript or torch.export model"}};
  for (const auto& [record, expected] : kinds) {
    caffe2::serialize::PyTorchStreamWriter writer(path.string());
    writer.writeRecord(record, "x", 1);
    writer.writeEndOfFile();
    EXPECT_THAT([&] { torchscript_contents(path); }, throws<InputError>(expected));
  }
}

}  // namespace
}  // namespace attend
