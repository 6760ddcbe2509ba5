#include "attend/export/torchscript_contents.h"

#include "attend/export/torchscript.h"
#include "attend/input_error.h"
#include "attend/models/language_model.h"
#include "io/files.h"
#include "support/archive.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/serialization/import.h>
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
  EXPECT_THAT(contents.methods, testing::ElementsAre("forward(x: Tensor) -> Tensor"));
  EXPECT_THAT(contents.extra_files, testing::ElementsAre(testing::Pair("notes.txt", 7)));
}

TEST_F(TorchScriptContentsTest, AgreesWithLibTorch) {
  LanguageModelConfig config;
  config.vocab_size = 7;
  config.stack.embed_dim = 8;
  LanguageModel model(config);
  export_torchscript(model, torch::ones({1, 3}, torch::kLong), path,
                     {.input_names = {"tokens"}, .dynamic = {{0, 1, "length", 1, 8}}});
  TensorList expected;
  const auto module = torch::jit::load(path.string());
  for (const auto& item : module.named_parameters()) expected.add(item.name, item.value, false);
  for (const auto& item : module.named_buffers()) expected.add(item.name, item.value, true);
  const auto tensors = torchscript_contents(path).tensors;
  const auto text = [](const TensorInfo& tensor) {
    return fmt::format("{} ({}) {} {} {} {} {}", tensor.name, fmt::join(tensor.shape, ", "),
                       tensor.dtype, tensor.elements, tensor.bytes, static_cast<int>(tensor.role),
                       tensor.alias_of);
  };
  ASSERT_EQ(tensors.size(), expected.tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(text(tensors[i]), text(expected.tensors()[i]));
  }
}

TEST_F(TorchScriptContentsTest, ReadsFilesWithInvalidCodeWithoutRunningIt) {
  auto entries = archive_entries(path);
  for (auto& [name, content] : entries) {
    if (name.ends_with(".py")) content += "  def broken(self: __torch__.X) -> Tensor:\n    ((((\n";
  }
  write_archive(path, entries);
  EXPECT_THAT(torchscript_contents(path).methods,
              testing::ElementsAre("forward(x: Tensor) -> Tensor", "broken() -> Tensor"));
}

TEST_F(TorchScriptContentsTest, RejectsInvalidPickles) {
  auto entries = archive_entries(path);
  const auto whole = entries.at("data.pkl");
  const auto reads = [&](const std::string& pickle, const char* message) {
    entries["data.pkl"] = pickle;
    write_archive(path, entries);
    EXPECT_THAT([&] { torchscript_contents(path); }, throws<InputError>(message));
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    const auto at = whole.find(from);
    EXPECT_NE(at, std::string::npos);
    return std::string(whole).replace(at, from.size(), to);
  };
  reads("\x80\x02K\x01r\xff\xff\xff\xffj\xff\xff\xff\xff.",
        "expected a module");  // must not allocate memory for 2^32 values
  reads("\x80\x04N.", "invalid pickle at byte 2: expected protocol 2, found 4");
  reads("\x80\x02.", "a value is missing");
  reads("\x80\x02", "it is truncated");
  reads("\x80\x02X\xff\xff\xff\xff", "it is truncated");
  reads("\x80\x02h\x01.", "value 1 is not defined");
  reads("\x80\x02t.", "a mark is missing");
  reads(
      "\x80\x02"
      "i.",
      "unknown opcode 0x69");
  // A module that contains itself.
  const auto type = whole.substr(2, whole.find('q') - 2);
  const auto padding = "X\xff" + std::string(3, '\0') + std::string(255, 'x');
  reads("\x80\x02" + padding + type + ")\x81q\x01}X\x01" + std::string(3, '\0') + "ah\x01sb.",
        "modules are nested deeper than 200 levels");
  // Wrong sizes. In the pickle, K\2 K\3 is the shape (2, 3) of `weight`.
  reads(replaced("(K\x02K\x03t", "(K\x02K\x04t"),
        "data.pkl: weight: a storage of 6 elements cannot contain a tensor of shape (2, 4)");
  reads(replaced("(K\x02K\x03t", "(J\xff\xff\xff\xffK\x03t"), "elements cannot contain a tensor");
  const std::string huge{"\x8a\x08" + std::string(7, '\0') + "\x40"};  // 2^62
  reads(replaced("(K\x02K\x03t", "(" + huge + huge + "t"), "elements cannot contain a tensor");
  reads(replaced("FloatStorage", "OtherStorage"), "weight: unknown dtype");
  reads(replaced("_rebuild_tensor_v2", "_rebuild_qtensor"), "weight: expected a dense tensor");
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
       "linear.pt: expected a safetensors, TorchScript, .pt2 or ONNX file, found a Python pickle"},
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
