#include "export/nested_cases.h"

#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "io/files.h"

#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/nn/modules/linear.h>

#include <optional>
#include <string_view>

namespace attend {
namespace {

using Tensor = torch::Tensor;
using Tensors = std::vector<Tensor>;
using Dictionary = std::map<std::string, Tensor>;

c10::IValue tuple_of_tensors(const Tensors& tensors) {
  return c10::ivalue::Tuple::create({tensors.begin(), tensors.end()});
}

/// Returns random small integers: results then do not depend on the order of sums.
Tensor integers(torch::IntArrayRef sizes) {
  return torch::randint(-9, 10, sizes, torch::kFloat);
}

/// Writes the tensors of inputs with other batch sizes, and the outputs of `function`.
template <typename Function, typename Inputs>
void write_values(const std::filesystem::path& path, const Function& function,
                  const Inputs& example) {
  const torch::NoGradGuard no_grad;
  std::vector<c10::IValue> calls;
  for (const int64_t batch : {1, 2, 5, 16}) {
    auto inputs = example;
    Tensors tensors;
    visit_tensors(inputs, [&](Tensor& tensor) {
      tensor = integers({batch, tensor.size(1)});
      tensors.push_back(tensor);
    });
    const auto outputs = Outputs(std::apply(function, inputs)).tensors;
    calls.emplace_back(
        c10::ivalue::Tuple::create({tuple_of_tensors(tensors), tuple_of_tensors(outputs)}));
  }
  const auto bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(calls)));
  replace_file(path, std::string_view(bytes.data(), bytes.size()));
}

}  // namespace

void write_nested_cases(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  torch::nn::Linear linear(4, 3);
  for (auto& parameter : linear->parameters()) parameter.set_data(integers(parameter.sizes()));
  const auto x = integers({2, 4});
  const auto write = [&](const std::string& name, const auto& function, const auto& example,
                         ExportOptions options) {
    std::size_t input = 0;
    visit_tensors(example, [&](const Tensor&) {
      options.dynamic.push_back({input++, 0, "batch", 1, 64});
    });
    export_torchscript(linear, function, example, folder / (name + ".pt"), options);
    export_pt2(linear, function, example, folder / (name + ".pt2"), options);
    export_onnx(linear, function, example, folder / (name + ".onnx"), options);
    write_values(folder / (name + ".values"), function, example);
  };

  // Another program in the archive of `tuple`; see nested_test.py.
  const TracedMethod twice{
      .name = "twice",
      .function = [&](const Tensors& in) { return linear->forward(in[0]) * 2; },
      .example_inputs = {x},
      .input_names = {"x"},
      .dynamic = {{0, 0, "batch", 1, 64}}};
  export_pt2(linear, forward_of(linear), {x}, folder / "several.pt2",
             {.dynamic = {{0, 0, "batch", 1, 64}}}, {twice});
  using States = std::tuple<Tensor, std::pair<Tensor, Tensor>>;
  write("dictionaries",
        [&](const Dictionary& batch, const States& states, const std::optional<Tensor>& mask) {
          const auto& [first, others] = states;
          auto logits = linear->forward(batch.at("ids") * batch.at("scale.0") + first);
          if (mask) logits = logits * *mask;
          return std::map<std::string, Tensors>{
              {"logits", {logits}}, {"states", {first + 1, others.first - others.second}}};
        },
        std::tuple(Dictionary{{"ids", x}, {"scale.0", x}}, States(x, {x, x}),
                   std::optional<Tensor>()),
        {.input_names = {"batch", "states", "mask"}});
  write("tuple",
        [&](const std::pair<Tensor, Tensor>& pair, const Tensor& x) {
          const auto sums = linear->forward(pair.first + pair.second);
          return std::tuple(sums, std::optional<Tensor>(),
                            Dictionary{{"half", x / 2}, {"double", x * 2}});
        },
        std::tuple(std::pair(x, x), x), {.input_names = {"pair", "x"}, .output_names = {"sums"}});
  using Optional = std::map<std::string, std::optional<Tensor>>;
  write("optional",
        [&](const Optional& batch, const Tensors& states, const std::optional<Tensor>& mask) {
          auto ids = *batch.at("ids");
          if (batch.at("mask")) ids = ids * *batch.at("mask");
          const auto logits = linear->forward(ids + states.at(0) * states.at(1));
          return Optional{{"logits", mask ? logits * *mask : logits}, {"none", std::nullopt}};
        },
        std::tuple(Optional{{"ids", x}, {"mask", std::nullopt}}, Tensors{x, x},
                   std::optional<Tensor>()),
        {.input_names = {"batch", "states", "mask"}});
}

}  // namespace attend
