/// Exports each case in the formats of the case, for the Python tests to load.
///
///     export_cases OUTPUT_FOLDER [NAME...]
///     export_cases --unused-rules
///
/// The first form writes for each case, or for those whose name is NAME or starts with "NAME.":
///     CASE.pt, CASE.pt2, CASE.onnx   the module in each format
///     CASE.opset17.onnx, ...         for the cases in `kAtEachOpset`
///     CASE.external.onnx             with external data, for LanguageModel.plain
///     CASE.values    ((inputs, outputs), ...) at five shapes, for torch.load
///     CASE.step      (loss, parameters after one SGD step on the last inputs), only for float32
///                    cases that have parameters and draw no random numbers
/// and cases.json, which describes the cases; for all or with the name Nested, also the folder
/// nested (see nested_cases.h). Weights and inputs are random; set ATTEND_TEST_SEED
/// to reproduce a run. Exit status 1 if an export failed, or if too many exports of random cases
/// are not supported.
///
/// The second form prints the rules of the ONNX exporter that no case uses. Exit status 1 if there
/// is such a rule.

#include "attend/export/onnx.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/nn/eval_guard.h"
#include "export/export_case.h"
#include "export/nested_cases.h"
#include "export/onnx/node_types.h"
#include "export/rounding.h"
#include "export/unused_rules.h"
#include "io/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <string_view>

namespace attend {
namespace {

using namespace std::string_view_literals;

using Json = nlohmann::ordered_json;

/// Learning rate of the SGD step, here and in Python.
constexpr double kLearningRate = 0.05;

struct Format {
  const char* name;
  const char* extension;
  ExportReport (*write)(const ExportCase&, const Tensors&, const std::filesystem::path&,
                        const ExportOptions&);
};

const std::vector<Format> kFormats{
    {"torchscript", ".pt",
     [](const ExportCase& any, const Tensors& example, const auto& path, const auto& options) {
       return export_torchscript(*any.module, any.forward, example, path, options);
     }},
    {"pt2", ".pt2",
     [](const ExportCase& any, const Tensors& example, const auto& path, const auto& options) {
       return export_pt2(*any.module, any.forward, example, path, options);
     }},
    {"onnx", ".onnx",
     [](const ExportCase& any, const Tensors& example, const auto& path, const auto& options) {
       return export_onnx(*any.module, any.forward, example, path, options);
     }},
};

/// Cases that are also exported at the opsets in `kOtherOpsets`: models, and operators whose ONNX
/// nodes differ or have new definitions in these opsets.
const std::set<std::string> kAtEachOpset{
    "LanguageModel.as_in_llama",
    "LanguageModel.bfloat16",
    "LanguageModel.float16",
    "LanguageModel.padded",
    "LanguageModel.plain",
    "Operator.acos",
    "Operator.acosh",
    "Operator.amax",
    "Operator.amin",
    "Operator.asin",
    "Operator.asinh",
    "Operator.atan",
    "Operator.atanh",
    "Operator.attention",
    "Operator.attention_bool_mask",
    "Operator.attention_causal",
    "Operator.attention_fully_masked",
    "Operator.attention_grouped",
    "Operator.attention_of_dynamic_width",
    "Operator.attention_of_heads",
    "Operator.attention_of_heads_fully_masked",
    "Operator.avg_pool2d",
    "Operator.bitwise_and_of_integers",
    "Operator.chunk_length",
    "Operator.col2im",
    "Operator.conv2d",
    "Operator.conv_transpose1d",
    "Operator.cosh",
    "Operator.det",
    "Operator.eq",
    "Operator.eye",
    "Operator.gelu",
    "Operator.gelu_tanh",
    "Operator.grid_sample",
    "Operator.grid_sample_cubic",
    "Operator.grid_sample_of_volume",
    "Operator.gru",
    "Operator.hardsigmoid",
    "Operator.index_put",
    "Operator.isinf",
    "Operator.isnan",
    "Operator.layer_norm",
    "Operator.logsumexp",
    "Operator.lstm",
    "Operator.max_pool2d",
    "Operator.mean",
    "Operator.norm",
    "Operator.pad_reflect",
    "Operator.prod",
    "Operator.resize_antialiased",
    "Operator.rms_norm",
    "Operator.rms_norm_weight",
    "Operator.rnn",
    "Operator.round",
    "Operator.scatter_add",
    "Operator.scatter_amax",
    "Operator.selu",
    "Operator.sinh",
    "Operator.tan",
    "Operator.upsample_bilinear2d",
    "Seq2Seq.padded",
    "SequenceClassifier.mean_padded",
    "UserRandom.normal",
    "UserRandom.uniform",
};
constexpr std::array<int64_t, 6> kOtherOpsets{17, 19, 20, 21, 22, 23};

c10::IValue tuple_of(const Tensors& tensors) {
  return c10::ivalue::Tuple::create({tensors.begin(), tensors.end()});
}

void save(const std::filesystem::path& path, const c10::IValue& value) {
  const auto bytes = torch::jit::pickle_save(value);
  replace_file(path, std::string_view(bytes.data(), bytes.size()));
}

/// Adds noise to all parameters, since initial zeros would hide errors.
void add_noise(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::set<const void*> seen;
  for (auto& parameter : module.parameters()) {
    if (seen.insert(parameter.data_ptr()).second) parameter.add_(torch::randn_like(parameter), 0.1);
  }
}

/// Writes the inputs and outputs of five calls: the smallest and the largest sizes, and three
/// others. Returns the last inputs. Raises `tolerance` to 4 times the largest change of an output
/// of a random module by rounding: its norms and differences may amplify rounding errors.
Tensors write_values(const ExportCase& any, const std::filesystem::path& path, double& tolerance) {
  const torch::NoGradGuard no_grad;
  std::vector<c10::IValue> calls;
  Tensors inputs;
  for (std::size_t i = 0; i < 5; ++i) {
    inputs = draw(any, [&](const DynamicSizeSpec& size) {
      const auto [first, second, third] = size.others;
      return std::array{size.min, size.max, first, second, third}.at(i);
    });
    Tensors copies;  // the calls use copies, since forward may mutate its inputs
    for (const auto& input : inputs) copies.push_back(input.clone());
    torch::manual_seed(i);  // Python sets the same seed
    const auto outputs = any.forward(copies).tensors;
    calls.emplace_back(c10::ivalue::Tuple::create({tuple_of(inputs), tuple_of(outputs)}));
    if (any.group != "RandomModule") continue;
    for (const auto change : rounding_of_outputs(*any.module, any.forward, inputs)) {
      tolerance = std::max(tolerance, 4 * change);
    }
  }
  save(path, c10::ivalue::Tuple::create(std::move(calls)));
  return inputs;
}

/// Computes a loss, runs backward on it and returns it. The loss is the sum of the mean squares of
/// the outputs.
torch::Tensor backward(const ExportCase& any, const Tensors& inputs) {
  auto loss = torch::zeros({});
  torch::manual_seed(0);  // Python sets the same seed
  for (const auto& output : any.forward(inputs).tensors) {
    loss = loss + output.to(torch::kFloat).square().mean();
  }
  if (loss.requires_grad()) loss.backward();
  return loss.detach();
}

void write_step(const ExportCase& any, const torch::Tensor& loss,
                const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  Tensors stepped;
  for (const auto& parameter : any.module->parameters()) {
    const auto& gradient = parameter.grad();
    stepped.push_back(gradient.defined() ? parameter - gradient * kLearningRate
                                         : parameter.detach());
  }
  save(path, c10::ivalue::Tuple::create({loss, tuple_of(stepped)}));
}

std::vector<std::string> names_without_gradient(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().grad().defined()) names.push_back(item.key());
  }
  return names;
}

int64_t bytes_of(const Tensors& tensors) {
  std::map<const void*, int64_t> bytes;
  for (const auto& tensor : tensors) {
    bytes[tensor.storage().data()] = static_cast<int64_t>(tensor.storage().nbytes());
  }
  int64_t sum = 0;
  for (const auto& [address, count] : bytes) sum += count;
  return sum;
}

/// Returns a list of names for each group of tied parameters.
Json tied_names(const torch::nn::Module& module) {
  std::map<const void*, std::vector<std::string>> names;
  for (const auto& item : module.named_parameters()) {
    names[item.value().data_ptr()].push_back(item.key());
  }
  auto tied = Json::array();
  for (const auto& [address, all] : names) {
    if (all.size() > 1) tied.push_back(all);
  }
  return tied;
}

Json describe(const ExportCase& any) {
  auto inputs = Json::array();
  for (const auto& input : any.inputs) {
    auto dynamic = Json::object();
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0) continue;
      const auto& size = spec_of(input.shape[d]);
      dynamic[std::to_string(d)] = {size.name, size.min, size.max};
    }
    inputs.push_back({{"name", input.name}, {"dynamic", dynamic}});
  }
  auto tensors = any.module->parameters();
  for (const auto& buffer : any.module->buffers()) tensors.push_back(buffer);
  return {{"name", any.name()},
          {"group", any.group},
          {"option", any.option},
          {"inputs", inputs},
          {"dtype", c10::toString(any.dtype)},
          {"draws_random_numbers", any.draws_random_numbers},
          {"terms", any.terms},
          {"parameters", any.module->named_parameters().keys()},
          {"buffers", any.module->named_buffers().keys()},
          {"tied", tied_names(*any.module)},
          {"bytes", bytes_of(tensors)}};
}

/// Calls `write`, which exports a case. Returns "yes" if the export succeeds. Otherwise, returns
/// "unsupported: " (if the error contains one of `allowed`) or "failed: ", followed by the first
/// line of the error message.
std::string result_of(const std::vector<std::string>& allowed, const std::function<void()>& write) {
  try {
    write();
    return "yes";
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const bool is_allowed =
        std::any_of(allowed.begin(), allowed.end(),
                    [&](const std::string& text) { return what.find(text) != std::string::npos; });
    return (is_allowed ? "unsupported: " : "failed: ") + what.substr(0, what.find('\n'));
  }
}

/// Exports a case at the other opsets. Returns the result at each opset.
Json write_opsets(const ExportCase& any, const Tensors& example,
                  const std::filesystem::path& folder) {
  auto results = Json::object();
  for (const auto opset : kOtherOpsets) {
    const auto path = folder / fmt::format("{}.opset{}.onnx", any.name(), opset);
    results[std::to_string(opset)] = result_of({"requires opset"}, [&] {
      export_onnx(*any.module, any.forward, example, path, options_of(any), {.opset = opset});
    });
  }
  return results;
}

Json write_case(const ExportCase& any, uint64_t seed, const std::filesystem::path& folder) {
  torch::manual_seed(seed);
  add_noise(*any.module);
  const auto example = draw_example(any);
  auto described = describe(any);
  // The module is in training mode: the exporters must switch to eval mode.
  for (const auto& format : kFormats) {
    if (any.formats.count(format.name) == 0) continue;
    const auto path = folder / (any.name() + format.extension);
    described["formats"][format.name] =
        result_of(any.allowed_errors, [&] { format.write(any, example, path, options_of(any)); });
  }
  described["opsets"] =
      kAtEachOpset.count(any.name()) > 0 ? write_opsets(any, example, folder) : Json::object();
  if (any.name() == "LanguageModel.plain") {
    export_onnx(*any.module, any.forward, example, folder / (any.name() + ".external.onnx"),
                options_of(any), {.external_data = true});
  }
  const EvalGuard eval(*any.module);
  auto tolerance = tolerance_of(any.dtype);
  const auto inputs = write_values(any, folder / (any.name() + ".values"), tolerance);
  described["tolerance"] = tolerance;
  const auto loss = backward(any, inputs);
  described["unused"] = names_without_gradient(*any.module);
  described["step"] =
      any.dtype == torch::kFloat && !any.module->parameters().empty() && !any.draws_random_numbers;
  if (described["step"]) write_step(any, loss, folder / (any.name() + ".step"));
  return described;
}

bool is_wanted(const std::string& name, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return true;
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& any) {
    return name == any || name.starts_with(any + ".");
  });
}

std::vector<ExportCase> fixed_cases() {
  return joined({model_cases(), module_cases(), user_cases(), size_cases(), network_cases(),
                 operator_cases()});
}

/// Returns `onnx::types_of_nodes()` as JSON: the supported types of each ONNX operator that does
/// not support all types.
Json types_of_onnx_nodes() {
  auto all = Json::object();
  for (const auto& [kind, types] : onnx::types_of_nodes()) {
    for (const auto type : types) all[kind].push_back(onnx::name_of(type));
  }
  return all;
}

/// Number of random cases of a kind: the value of the environment variable ATTEND_RANDOM_EXPORTS,
/// or `otherwise`.
int num_random_cases(int otherwise) {
  const char* text = std::getenv("ATTEND_RANDOM_EXPORTS");
  return text != nullptr ? std::stoi(text) : otherwise;
}

int run(const std::filesystem::path& folder, const std::vector<std::string>& wanted) {
  const char* seed_text = std::getenv("ATTEND_TEST_SEED");
  const uint64_t seed = seed_text != nullptr ? std::stoull(seed_text) : std::random_device{}();
  fmt::print("repeat with ATTEND_TEST_SEED={}\n", seed);
  torch::manual_seed(seed);
  std::filesystem::create_directories(folder);
  auto cases = Json::array();
  std::set<std::string> names;
  int failures = 0;
  int unsupported = 0;
  const auto programs = random_programs(num_random_cases(20));
  const auto modules = random_modules(num_random_cases(12));
  for (const auto& any : joined({fixed_cases(), programs, modules})) {
    TORCH_CHECK(names.insert(any.name()).second, "case names must be unique, found ", any.name(),
                " twice");
    if (!is_wanted(any.name(), wanted)) continue;
    cases.push_back(with_source(any, [&] { return write_case(any, seed, folder); }));
    for (const auto* results : {"formats", "opsets"}) {
      for (const auto& [format, result] : cases.back()[results].items()) {
        const auto text = result.get<std::string>();
        if (results == "formats"sv) unsupported += text.starts_with("unsupported") ? 1 : 0;
        if (!text.starts_with("failed")) continue;
        fmt::print("{}, {}: {}\n", any.name(), format, text);
        ++failures;
      }
    }
  }
  if (static_cast<std::size_t>(unsupported) > programs.size() / 4) ++failures;
  if (is_wanted("Nested", wanted)) write_nested_cases(folder / "nested");
  const Json all{{"seed", seed},
                 {"learning_rate", kLearningRate},
                 {"types_of_onnx_nodes", types_of_onnx_nodes()},
                 {"cases", cases}};
  replace_file(folder / "cases.json", all.dump(1) + "\n");
  fmt::print("{} cases, {} failures, {} unsupported exports of random cases\n", cases.size(),
             failures, unsupported);
  return failures == 0 ? 0 : 1;
}

int list_unused_rules() {
  const auto unused = unused_rules(fixed_cases());
  for (const auto& name : unused) fmt::print("{}\n", name);
  fmt::print("{} ONNX rules are not used by any case\n", unused.size());
  return unused.empty() ? 0 : 1;
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: export_cases OUTPUT_FOLDER [NAME...] | --unused-rules\n";
    return 2;
  }
  try {
    if (std::string_view(argv[1]) == "--unused-rules") return attend::list_unused_rules();
    return attend::run(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "export_cases: " << error.what() << "\n";
    return 1;
  }
}
