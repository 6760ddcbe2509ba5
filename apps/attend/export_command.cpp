#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/model_export/export_plan.h"
#include "attend/nn/cast_copy.h"
#include "attend/nn/lora.h"
#include "attend/pretrained/peft_adapter.h"
#include "attend/train/initial_model.h"
#include "attend/train/recipe_fields.h"
#include "commands.h"
#include "options.h"
#include "report/encoding.h"
#include "runs/run_option.h"
#include "terminal/activity.h"
#include "terminal/output_file.h"
#include "texts/text_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <type_traits>
#include <utility>

namespace attend::app {

/// File format of an exported model.
enum class ExportFormat {
  torchscript,  ///< code and weights; torch.jit.load
  pt2,          ///< graph and weights; torch.export.load
  onnx,         ///< ONNX graph and weights; onnxruntime
  safetensors,  ///< weights only
  hf,           ///< folder of a published model; transformers
  peft,         ///< folder with the low-rank adapters of a model; PEFT
};

/// Dtype of the floating point weights in the file.
enum class ExportDtype { fp32, fp16, bf16 };

}  // namespace attend::app

namespace attend {

template <>
struct EnumNames<app::ExportDtype> {
  static constexpr std::array<std::string_view, 3> names{"fp32", "fp16", "bf16"};
};

template <>
struct EnumNames<app::ExportFormat> {
  static constexpr std::array<std::string_view, 6> names{"torchscript", "pt2", "onnx",
                                                         "safetensors", "hf",  "peft"};
};

}  // namespace attend

namespace attend::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClassesFile = "classes.json";  // JSON array of class names

struct ExportArguments {
  RunOption run;
  std::string out;
  std::string format;  ///< name of the format; empty = determined by the file extension
  bool overwrite = false;
  std::optional<ExportDtype> dtype;
  bool with_cache = false;
  std::optional<int64_t> opset;
  bool merge = false;  ///< merge low-rank adapters into the weights
  bool external_data = false;
};

ExportFormat format_of(const ExportArguments& arguments) {
  if (!arguments.format.empty()) return parse_choice<ExportFormat>("--format", arguments.format);
  const std::map<std::string, ExportFormat> extensions{{".pt", ExportFormat::torchscript},
                                                       {".pt2", ExportFormat::pt2},
                                                       {".onnx", ExportFormat::onnx},
                                                       {".safetensors", ExportFormat::safetensors}};
  const auto found = extensions.find(fs::path(arguments.out).extension());
  if (found != extensions.end()) return found->second;
  throw InputError(
      fmt::format("{}: unknown file extension: pass --format {}, or a name that ends in .pt, .pt2, "
                  ".onnx or .safetensors",
                  arguments.out, choices<ExportFormat>()));
}

/// A model to export, of a run or of a published folder.
struct ExportedModel {
  Model model;
  /// Stored in the exported file, unless it is a safetensors file: the tokenizer's files,
  /// recipe.toml or config.json, and the class names of a classifier.
  std::map<std::string, std::string> extra_files;
};

ExportedModel exported_model(const train::Run& run) {
  ExportedModel exported{run.model, run.tokenizer->files()};
  auto recipe = run.recipe;
  for (auto* paths : train::paths_of(recipe)) paths->clear();  // of this machine
  exported.extra_files.emplace(train::RunFiles::recipe, train::to_toml(recipe));
  if (!run.classes.empty())
    exported.extra_files.emplace(kClassesFile, nlohmann::json(run.classes).dump());
  return exported;
}

ExportedModel exported_model(const Pretrained& pretrained) {
  ExportedModel exported{pretrained.model, {}};
  for (const char* name : {"config.json", "tokenizer.json"})
    exported.extra_files.emplace(name, read_bytes(pretrained.folder / name));
  return exported;
}

torch::ScalarType scalar_type(ExportDtype dtype) {
  switch (dtype) {
    case ExportDtype::fp32:
      return torch::kFloat;
    case ExportDtype::fp16:
      return torch::kHalf;
    case ExportDtype::bf16:
      return torch::kBFloat16;
  }
  throw InputError(fmt::format("unknown dtype {}", static_cast<int>(dtype)));
}

/// Loads the model to export, with merged adapters if the command line says so.
RunOrPretrained load_exported(const ExportArguments& arguments,
                              std::optional<torch::ScalarType> dtype = std::nullopt) {
  auto loaded = arguments.run.load_run_or_pretrained(dtype);
  if (!arguments.merge) return loaded;
  auto* run = std::get_if<train::Run>(&loaded);
  const auto& model = run != nullptr ? run->model : std::get<Pretrained>(loaded).model;
  if (lora_adapters(module_of(model)).empty()) {
    refuse_without_effect(
        "--merge", fmt::format("on {}, which has no low-rank adapters", arguments.run.directory()));
  }
  if (run != nullptr)
    run->merge_adapters();
  else
    merge_and_remove_lora(module_of(model));
  return loaded;
}

/// Returns the folder of the published model whose weights the adapters of a model change; empty if
/// it is unknown, or a run.
std::string base_of(const RunOrPretrained& loaded, const std::string& directory) {
  if (const auto* pretrained = std::get_if<Pretrained>(&loaded))
    return fs::absolute(pretrained->folder).lexically_normal();
  const auto base = train::RunDirectory::open(directory).record().base;
  return base && is_pretrained(base->path) ? base->path : "";
}

/// Throws InputError if the adapters of a run change the weights of `base` and of another adapter.
void check_is_base(const std::string& base, const std::string& directory) {
  if (base.empty() || !is_peft_adapter(base)) return;
  throw InputError(
      fmt::format("{}: its base model {} is itself an adapter of PEFT, expected a folder with "
                  "config.json, which "
                  "a new adapter can name: pass --merge --format hf, which writes the weights with "
                  "both adapters",
                  directory, base));
}

/// Writes the folder of an adapter.
void write_adapter(const ExportArguments& arguments) {
  check_output_folder(arguments.out, arguments.run.directory());
  const auto loaded = load_exported(arguments);
  const auto* run = std::get_if<train::Run>(&loaded);
  const auto pretrained = run != nullptr ? as_pretrained(*run) : std::get<Pretrained>(loaded);
  const auto base = base_of(loaded, arguments.run.directory());
  check_is_base(base, arguments.run.directory());
  SavePeftAdapterOptions options{.base = base};
  if (run != nullptr && !base.empty()) options.classes = train::InitialModel(base).classes();
  save_peft_adapter(pretrained, arguments.out, options);
  fmt::print("{}: {} adapters, {} bytes; base model {}\n", arguments.out,
             lora_adapters(module_of(pretrained.model)).size(),
             fs::file_size(fs::path(arguments.out) / "adapter_model.safetensors"),
             base.empty() ? "not named" : base);
}

/// Writes the folder of a published model. The dtype is that of the model, or that of the base of
/// merged adapters, unless --dtype is given.
void write_folder(const ExportArguments& arguments) {
  check_output_folder(arguments.out, arguments.run.directory());
  const auto loaded = load_exported(arguments);
  const auto* run = std::get_if<train::Run>(&loaded);
  const auto pretrained = run != nullptr ? as_pretrained(*run) : std::get<Pretrained>(loaded);
  SavePretrainedOptions options;
  if (arguments.dtype) {
    options.dtype = scalar_type(*arguments.dtype);
  } else if (arguments.merge) {
    if (const auto base = base_of(loaded, arguments.run.directory()); !base.empty())
      options.dtype = pretrained_dtype(base);
  }
  {
    const Activity activity("exporting");
    save_pretrained(pretrained, arguments.out, options);
  }
  const auto config = nlohmann::json::parse(read_bytes(fs::path(arguments.out) / "config.json"));
  fmt::print("{}: {}, {}, {} bytes of weights\n", arguments.out,
             config.at("architectures").at(0).get<std::string>(),
             config.at("dtype").get<std::string>(),
             fs::file_size(fs::path(arguments.out) / "model.safetensors"));
}

/// Encodes binary files, such as tokenizer.model, as tokenizer.model.base64, because .pt2 and ONNX
/// files can store only UTF-8 text.
std::map<std::string, std::string> texts_of(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, content] : files) {
    const bool is_text = replace_invalid_utf8(content) == content;
    texts.emplace(is_text ? name : name + ".base64", is_text ? content : to_base64(content));
  }
  return texts;
}

/// Throws InputError for options that have no effect on files in `format`.
void check_options(const ExportArguments& arguments, ExportFormat format) {
  const auto where = fmt::format("on the format {}", to_string(format));
  if (format != ExportFormat::onnx) {
    if (arguments.external_data) refuse_without_effect("--external-data", where);
    if (arguments.opset) refuse_without_effect("--opset", where);
  }
  const bool is_folder = format == ExportFormat::hf || format == ExportFormat::peft;
  if (is_folder && arguments.overwrite) refuse_without_effect("--overwrite", where);
  if (format == ExportFormat::peft) {
    if (arguments.merge) refuse_without_effect("--merge", where);
    if (arguments.dtype) refuse_without_effect("--dtype", where);
  }
  if (!arguments.with_cache) return;
  if (format == ExportFormat::safetensors || is_folder)
    refuse_without_effect("--with-cache", where);
  if (format == ExportFormat::torchscript)
    refuse_without_effect("--with-cache", where, "call the method step of the file");
}

template <typename Kind>
ExportPlan plan_of(const Kind& model, bool is_published, const ExportArguments& arguments) {
  if constexpr (std::is_same_v<Kind, SequenceClassifier>) {
    // As the files that Optimum writes for a published model.
    if (!arguments.with_cache && is_published) return plan_export_with_mask(model);
  }
  if (!arguments.with_cache) return plan_export(model);
  if constexpr (std::is_same_v<Kind, LanguageModel>) {
    return plan_export_with_cache(model);
  } else {
    throw InputError(fmt::format("--with-cache: expected a language model, found a {}",
                                 kModelKinds.at(Model(model).index())));
  }
}

/// A plan, and how much the cast of the weights changes the outputs for the example inputs.
struct CastPlan {
  ExportPlan plan;
  double change = 0.0;   ///< largest absolute change of an output
  double largest = 0.0;  ///< largest absolute value of an output
};

template <typename Model>
CastPlan cast_plan_of(const Model& model, bool is_published, const ExportArguments& arguments) {
  const auto dtype = arguments.dtype.value_or(ExportDtype::fp32);
  auto original = plan_of(model, is_published, arguments);
  if (dtype == ExportDtype::fp32) return {std::move(original)};
  const auto type = scalar_type(dtype);
  CastPlan cast{plan_of(cast_copy(model, type), is_published, arguments)};
  const torch::NoGradGuard no_grad;
  auto inputs = original.example_inputs;
  const auto expected = original.forward(inputs).tensors.front();
  for (auto& input : inputs) input = input.is_floating_point() ? input.to(type) : input;
  const auto found = cast.plan.forward(inputs).tensors.front();
  cast.change = (found.to(torch::kFloat) - expected).abs().max().template item<double>();
  cast.largest = expected.abs().max().template item<double>();
  return cast;
}

ExportReport write(CastPlan& cast, const std::map<std::string, std::string>& extra_files,
                   ExportFormat format, const ExportArguments& arguments) {
  const fs::path out = arguments.out;
  auto& plan = cast.plan;
  plan.options.extra_files = extra_files;
  if (format == ExportFormat::pt2 || format == ExportFormat::onnx)
    plan.options.extra_files = texts_of(plan.options.extra_files);
  const Activity activity("exporting");
  switch (format) {
    case ExportFormat::torchscript:
      return export_torchscript(plan, out);
    case ExportFormat::pt2:
      return export_pt2(plan, out);
    case ExportFormat::onnx:
      return export_onnx(plan, out,
                         {.opset = arguments.opset.value_or(OnnxOptions().opset),
                          .external_data = arguments.external_data});
    case ExportFormat::safetensors: {
      std::map<std::string, std::string> metadata{{"format", "pt"}};
      const auto classes = extra_files.find(kClassesFile);
      if (classes != extra_files.end()) metadata.insert(*classes);
      save_safetensors(out, {.tensors = state_dict(*plan.model), .metadata = metadata});
      return {};
    }
    case ExportFormat::hf:    // see write_folder
    case ExportFormat::peft:  // see write_adapter
      break;
  }
  throw InputError(fmt::format("unknown format {}", static_cast<int>(format)));
}

/// Describes how the file was verified.
std::string verification_text(ExportFormat format, const ExportReport& report) {
  if (format == ExportFormat::safetensors) return "weights only";
  std::string sizes;
  for (const auto& [name, range] : report.verified_sizes) {
    sizes += fmt::format(", {} {} to {}", name, range.min, range.max);
  }
  return fmt::format(
      "{} at {} shapes{}, max difference {:.2g}{}",
      format == ExportFormat::onnx ? "traced program verified" : "file verified",
      report.num_verified_shapes, sizes, report.max_abs_diff,
      report.verified_other_values ? "" : "; verified only with the values of the example inputs");
}

void run_export(const ExportArguments& arguments) {
  const bool is_adapter = arguments.format == to_string(ExportFormat::peft);
  const bool is_folder = is_adapter || arguments.format == to_string(ExportFormat::hf);
  if (!is_folder)
    check_output_file("-o", arguments.out, arguments.run.directory(), arguments.overwrite);
  const auto format = format_of(arguments);
  check_options(arguments, format);
  if (is_adapter) return write_adapter(arguments);
  if (is_folder) return write_folder(arguments);
  if (format == ExportFormat::onnx) {  // which may need a second file
    check_output_file("-o", arguments.out + ".data", arguments.run.directory(),
                      arguments.overwrite);
  }
  const auto loaded = load_exported(arguments, torch::kFloat);
  const auto* run = std::get_if<train::Run>(&loaded);
  const auto exported =
      run != nullptr ? exported_model(*run) : exported_model(std::get<Pretrained>(loaded));
  auto cast =
      std::visit([&](const auto& model) { return cast_plan_of(model, run == nullptr, arguments); },
                 exported.model);
  const auto report = write(cast, exported.extra_files, format, arguments);
  const auto second = report.external_data.empty()
                          ? ""
                          : fmt::format(", and {}, {} bytes", report.external_data.string(),
                                        fs::file_size(report.external_data));
  fmt::print("{}: {}, {} bytes{}; {}\n", arguments.out, to_string(format),
             fs::file_size(arguments.out), second, verification_text(format, report));
  if (arguments.dtype.value_or(ExportDtype::fp32) != ExportDtype::fp32) {
    fmt::print("{} changes the outputs by at most {:.2g}; their largest absolute value is {:.2g}\n",
               to_string(*arguments.dtype), cast.change, cast.largest);
  }
  for (const auto& read : report.values_read) {
    fmt::print(
        stderr,
        "attend: forward read a value from a tensor; the file contains the value as a constant: "
        "{}\n",
        read);
  }
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "export", "Export a trained or published model to TorchScript, .pt2, ONNX or safetensors");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->run.add_to(*command, "run", kRunOrPretrained);
  arguments->run.add_device_to(*command, "cpu");
  command
      ->add_option("-o,--out", arguments->out, "output file, e.g. model.pt; hf, peft: new folder")
      ->required()
      ->type_name("FILE")
      ->group("Output");
  command->add_option("--format", arguments->format, "file format")
      ->type_name(choices<ExportFormat>())
      ->default_str("from the extension: .pt, .pt2, .onnx, .safetensors")
      ->group("Output");
  command
      ->add_option_function<std::string>(
          "--dtype",
          [=](const std::string& text) {
            arguments->dtype = parse_choice<ExportDtype>("--dtype", text);
          },
          "dtype of the weights in the file")
      ->type_name(choices<ExportDtype>())
      ->default_str("fp32; hf: that of the model, or of the base model with --merge")
      ->group("Output");
  command
      ->add_flag("--with-cache", arguments->with_cache,
                 "onnx, pt2: the KV cache of a language model is an input and an output")
      ->group("Output");
  command
      ->add_flag("--external-data", arguments->external_data,
                 "onnx: write the weights to a second file, FILE.data; from 2 GiB, always")
      ->group("Output");
  command->add_option("--opset", arguments->opset, "onnx: version of the operators, 17 to 23")
      ->check(CLI::Range(17, 23))
      ->default_str(std::to_string(OnnxOptions().opset))
      ->group("Output");
  command
      ->add_flag("--merge", arguments->merge,
                 "merge the low-rank adapters of a run or of an adapter folder into the weights; "
                 "without this option, the file contains both, and hf is refused")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file")
      ->group("Output");
  command->footer(
      "torchscript   torch.jit.load in Python and C++; includes methods such as generate\n"
      "pt2           torch.export.load in Python, load_pt2 in C++, AOTInductor\n"
      "onnx          onnxruntime and other ONNX runtimes\n"
      "safetensors   weights only\n"
      "hf            folder of a published model; AutoModelForCausalLM.from_pretrained in Python,\n"
      "              load_pretrained in C++\n"
      "peft          folder with the low-rank adapters of a run or of an adapter folder, without\n"
      "              the base model; PEFT\n\n"
      "All formats except safetensors, hf and peft contain tokenizer.json and recipe.toml, or "
      "config.json of a\n"
      "published model, as extra files.\n"
      "If the run has a subword tokenizer, they also contain tokenizer.model (TorchScript) or\n"
      "tokenizer.model.base64 (.pt2 and ONNX).\n"
      "Before a TorchScript or .pt2 file is written, its content is loaded and compared with the\n"
      "model at several input shapes. For ONNX, the traced program is compared instead.\n\n"
      "Examples:\n"
      "  attend export runs/first -o model.pt\n"
      "  attend export runs/first -o model.onnx\n"
      "  attend export runs/first -o model.onnx --with-cache --dtype fp16 --opset 23\n"
      "  attend export runs/first --weights last --format pt2 -o newest.bin\n"
      "  attend export all-MiniLM-L6-v2 -o minilm.onnx\n"
      "  attend export runs/tuned --merge -o tuned.onnx\n"
      "  attend export runs/first --format hf -o my-model");
  command->callback([=] { run_export(*arguments); });
}

}  // namespace attend::app
