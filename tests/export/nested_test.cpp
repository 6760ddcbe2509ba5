// Nested inputs and outputs. nested_test.py loads such files in Python.
#include "export/nested.h"

#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/pt2/pt2_program.h"
#include "support/onnx_file.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

using testing::ElementsAre;
using Dictionary = std::map<std::string, torch::Tensor>;

/// Weights and inputs are small integers, so that results do not depend on the order of sums.
struct NestedExport : testing::Test {
  NestedExport() {
    for (auto& parameter : linear->parameters()) parameter.copy_(integers(parameter.sizes()));
  }
  static torch::Tensor integers(torch::IntArrayRef sizes) {
    return torch::randint(-9, 10, sizes, torch::kFloat);
  }

  const TemporaryDirectory directory;
  const torch::NoGradGuard no_grad;
  torch::nn::Linear linear{4, 3};
  const torch::Tensor x = integers({2, 4});
};

TEST(TreeSpec, VisitsTensorsInTheOrderOfKeys) {
  const auto one = torch::ones({1});
  const auto two = torch::ones({2});
  const auto three = torch::ones({3});
  const std::tuple value(Dictionary{{"z", two}, {"a", one}}, std::optional<torch::Tensor>(),
                         std::vector<torch::Tensor>{three});
  std::vector<int64_t> sizes;
  const auto spec =
      visit_tensors(value, [&](const torch::Tensor& tensor) { sizes.push_back(tensor.size(0)); });
  EXPECT_THAT(sizes, ElementsAre(1, 2, 3));
  EXPECT_THAT(spec.children.at(0).keys, ElementsAre("a", "z"));
  std::vector<std::string> paths;
  for (const auto& leaf : leaves_of(spec)) paths.push_back(leaf.path + (leaf.is_none ? "?" : ""));
  EXPECT_THAT(paths, ElementsAre("0.a", "0.z", "1?", "2.0"));
}

TEST(Outputs, OneElementOfAVectorIsNotNested) {
  EXPECT_EQ(Outputs(std::vector{torch::ones({1})}).spec, TreeSpec());
  EXPECT_EQ(Outputs(std::tuple(torch::ones({1}))).spec.kind, TreeSpec::Kind::tuple);
  EXPECT_EQ(Outputs(std::vector(2, torch::ones({1}))).spec,
            Outputs(std::tuple(torch::ones({1}), torch::ones({1}))).spec);
}

TEST_F(NestedExport, InputsAndOutputsHaveTheNamesOfTheirKeys) {
  const auto forward = [&](const Dictionary& batch) {
    const auto y = linear->forward(batch.at("x.y") * batch.at("scale"));
    return Dictionary{{"logits", y}, {"double", 2 * y}};
  };
  const std::tuple example(Dictionary{{"x.y", x}, {"scale", x}});
  const ExportOptions options{.input_names = {"batch"}, .dynamic = {{0, 0, "n"}, {1, 0, "n"}}};
  const auto expected = forward(std::get<0>(example));
  export_pt2(linear, forward, example, directory / "nested.pt2", options);
  const auto program = load_pt2(directory / "nested.pt2");
  EXPECT_THAT(program.input_names(), ElementsAre("batch_scale", "batch_x_y"));
  EXPECT_THAT(program.output_names(), ElementsAre("double", "logits"));
  const auto outputs = program.forward_named({{"batch_x_y", x}, {"batch_scale", x}});
  EXPECT_TRUE(torch::equal(outputs.at("logits"), expected.at("logits")));

  export_torchscript(linear, forward, example, directory / "nested.pt", options);
  c10::Dict<std::string, torch::Tensor> batch;
  batch.insert("x.y", x);
  batch.insert("scale", x);
  const auto found = torch::jit::load(directory / "nested.pt").forward({batch}).toGenericDict();
  EXPECT_TRUE(torch::equal(found.at("double").toTensor(), expected.at("double")));

  export_onnx(linear, forward, example, directory / "nested.onnx", options);
  const auto onnx = read_onnx(directory / "nested.onnx");
  EXPECT_THAT(onnx.inputs, ElementsAre("batch_scale", "batch_x_y"));
  EXPECT_THAT(onnx.outputs, ElementsAre("double", "logits"));
}

TEST_F(NestedExport, KeysMayBeAnyText) {
  const std::vector<std::string> keys{"", "in", "a \"b\"\n", "caf\u00e9"};
  const auto forward = [&](const Dictionary& in) {
    Dictionary out;
    for (const auto& key : keys) out[key] = in.at(key) * 2;
    return out;
  };
  Dictionary in;
  c10::Dict<std::string, torch::Tensor> dict;
  for (const auto& key : keys) dict.insert(key, in[key] = torch::randn({2, 4}));
  export_torchscript(linear, forward, std::tuple(in), directory / "keys.pt", {});
  const auto found = torch::jit::load(directory / "keys.pt").forward({dict}).toGenericDict();
  for (const auto& key : keys) EXPECT_TRUE(torch::equal(found.at(key).toTensor(), 2 * in[key]));
  export_pt2(linear, forward, std::tuple(in), directory / "keys.pt2", {});
  EXPECT_EQ(load_pt2(directory / "keys.pt2").output_names().at(2), keys[3]);
  export_onnx(linear, forward, std::tuple(in), directory / "keys.onnx", {});
}

TEST_F(NestedExport, NoneIsAnUndefinedTensorInLoadPt2) {
  const auto forward = [&](const torch::Tensor& in, const std::optional<torch::Tensor>& mask) {
    return std::pair(mask, linear->forward(in));
  };
  export_pt2(linear, forward, std::tuple(x, std::optional<torch::Tensor>()), directory / "none.pt2",
             {});
  const auto program = load_pt2(directory / "none.pt2");
  EXPECT_THAT(program.input_names(), ElementsAre("input0"));
  const auto outputs = program.forward({x});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_FALSE(outputs[0].defined());
  EXPECT_TRUE(torch::equal(outputs[1], linear->forward(x)));
}

TEST_F(NestedExport, TracedMethodsOfTorchScriptMayBeNested) {
  const auto call = flatten_call(
      [](const Dictionary& in) {
        return Dictionary{{"y", 2 * in.at("x")}};
      },
      std::tuple(Dictionary{{"x", x}}), {.input_names = {"batch"}});
  export_torchscript(linear, forward_of(linear), {x}, directory / "method.pt", {},
                     {.traced = {{.name = "twice",
                                  .function = call.forward,
                                  .example_inputs = call.inputs,
                                  .input_names = call.options.input_names,
                                  .arguments = call.options.arguments}}});
  const auto file = torch::jit::load(directory / "method.pt");
  c10::Dict<std::string, torch::Tensor> in;
  in.insert("x", x);
  const auto out = file.get_method("twice")({in}).toGenericDict();
  EXPECT_TRUE(torch::equal(out.at("y").toTensor(), 2 * x));
}

TEST_F(NestedExport, OtherKeysAtOtherSizesAreAnError) {
  const auto forward = [](const torch::Tensor& in) {
    return Dictionary{{in.size(0) < 5 ? "few" : "many", 2 * in}};
  };
  const ExportOptions options{.dynamic = {{0, 0, "batch", 1, 8}}};
  for (const auto* name : {"keys.pt", "keys.pt2", "keys.onnx"}) {
    const auto path = directory / name;
    EXPECT_THAT(
        [&] {
          const std::tuple example(x);
          if (path.extension() == ".pt")
            export_torchscript(linear, forward, example, path, options);
          if (path.extension() == ".pt2") export_pt2(linear, forward, example, path, options);
          if (path.extension() == ".onnx") export_onnx(linear, forward, example, path, options);
        },
        throws_naming<std::runtime_error>("many", "few"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST_F(NestedExport, InvalidNamesAreErrors) {
  const auto forward = [](const Dictionary& in) { return in.at("x"); };
  const std::tuple example(Dictionary{{"x", x}});
  EXPECT_THAT(
      [&] {
        export_pt2(linear, forward, example, directory / "a", {.input_names = {"a", "b"}});
      },
      throws_naming<c10::ValueError>("2", "1"));
  EXPECT_THAT(
      [&] { export_pt2(linear, forward, example, directory / "a", {.input_names = {"in"}}); },
      throws<c10::ValueError>("in"));
  const std::tuple same(Dictionary{{"x.y", x}, {"x_y", x}});
  EXPECT_THAT([&] { export_onnx(linear, forward, same, directory / "a", {.input_names = {"b"}}); },
              throws<c10::ValueError>("b_x_y"));
}

TEST_F(NestedExport, ElementsOfOtherTypesAreAnErrorInTorchScript) {
  const auto forward =
      [](const std::vector<std::optional<std::pair<torch::Tensor, torch::Tensor>>>& in) {
        return in.at(0)->first;
      };
  const std::tuple example(
      std::vector<std::optional<std::pair<torch::Tensor, torch::Tensor>>>{std::pair(x, x), {}});
  EXPECT_THAT([&] { export_torchscript(linear, forward, example, directory / "a.pt", {}); },
              throws_naming<c10::ValueError>("Tuple", "Optional"));
  export_pt2(linear, forward, example, directory / "a.pt2", {});
}

}  // namespace
}  // namespace attend
