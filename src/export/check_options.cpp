#include "export/check_options.h"

#include "export/numbered_names.h"
#include "io/utf8.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace attend {
namespace {

bool is_word(const std::string& name) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), fits);
}

/// Returns true for names that are invalid in the code that Python generates when it loads a file.
bool is_reserved(const std::string& name) {
  static const std::set<std::string> all{
      "False",   "None",     "True",     "and",    "as",       "assert", "async",  "await",
      "break",   "class",    "continue", "def",    "del",      "elif",   "else",   "except",
      "finally", "for",      "from",     "global", "if",       "import", "in",     "is",
      "lambda",  "nonlocal", "not",      "or",     "pass",     "raise",  "return", "self",
      "try",     "while",    "with",     "yield",  "NoneType", "torch"};
  return all.count(name) > 0;
}

bool is_identifier(const std::string& name) {
  return is_word(name) && (name.front() < '0' || name.front() > '9') && !is_reserved(name);
}

constexpr const char* kIdentifier =
    " must be a Python identifier (letters, digits and _, no leading digit, not a keyword), found "
    "'";

void check_names(const char* what, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const auto& name : names) {
    check_name(what, name);
    TORCH_CHECK_VALUE(seen.insert(name).second, what, " must be unique, found '", name,
                      "' more than once");
  }
}

void check_dimension(const DynamicDimension& dynamic, const std::vector<torch::Tensor>& inputs,
                     std::map<std::string, DynamicDimension>& seen) {
  check_name("the name of a dynamic dimension", dynamic.name);
  TORCH_CHECK_VALUE(dynamic.input < inputs.size(), "dynamic dimension '", dynamic.name,
                    "': input (", dynamic.input, ") must be less than the number of inputs (",
                    inputs.size(), ")");
  const auto& input = inputs[dynamic.input];
  TORCH_CHECK_VALUE(dynamic.dimension >= 0 && dynamic.dimension < input.dim(),
                    "dynamic dimension '", dynamic.name, "': dimension (", dynamic.dimension,
                    ") must be 0 or more and less than the number of dimensions of input ",
                    dynamic.input, " (", input.dim(), ")");
  const auto size = input.size(dynamic.dimension);
  TORCH_CHECK_VALUE(dynamic.min >= 1, "dynamic dimension '", dynamic.name, "': min (", dynamic.min,
                    ") must be 1 or more");
  TORCH_CHECK_VALUE(dynamic.min <= size && size <= dynamic.max, "dynamic dimension '", dynamic.name,
                    "': the size of the example input (", size, ") must be between min (",
                    dynamic.min, ") and max (", dynamic.max, ")");
  const auto [first, is_new] = seen.emplace(dynamic.name, dynamic);
  const auto& other = first->second;
  TORCH_CHECK_VALUE(
      is_new || inputs[other.input].size(other.dimension) == size, "dynamic dimension '",
      dynamic.name, "': all dimensions with this name must have the same size, found ",
      inputs[other.input].size(other.dimension), " and ", size, " in the example inputs");
  TORCH_CHECK_VALUE(other.min == dynamic.min && other.max == dynamic.max, "dynamic dimension '",
                    dynamic.name,
                    "': all dimensions with this name must have the same min and max, found ",
                    other.min, "..", other.max, " and ", dynamic.min, "..", dynamic.max);
}

void check_extra_file(const std::string& name) {
  const std::filesystem::path path(name);
  const bool leaves = std::any_of(path.begin(), path.end(), [](const auto& part) {
    return part.empty() || part == "." || part == "..";
  });
  const bool is_plain = name.find_first_of(std::string_view("\0\\", 2)) == std::string::npos &&
                        replace_invalid_utf8(name) == name;
  TORCH_CHECK_VALUE(!name.empty() && path.is_relative() && !leaves && is_plain,
                    "the name of an extra file must be a relative path in UTF-8 without "
                    "backslashes and without '.' and '..' as components, found '",
                    name, "'");
}

}  // namespace

void check_name(const char* what, const std::string& name) {
  TORCH_CHECK_VALUE(is_identifier(name), what, kIdentifier, name, "'");
}

void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs) {
  // The comparison also rejects NaN.
  TORCH_CHECK_VALUE(options.tolerance >= 0.0, "tolerance (", options.tolerance,
                    ") must be 0 or more");
  const auto count = example_inputs.size();
  TORCH_CHECK_VALUE(count > 0, "example_inputs must not be empty");
  for (std::size_t i = 0; i < count; ++i) {
    TORCH_CHECK_VALUE(example_inputs[i].defined(), "example input ", i,
                      " must be a defined tensor, found an undefined one");
  }
  TORCH_CHECK_VALUE(options.input_names.size() <= count, "found ", options.input_names.size(),
                    " input_names, expected at most ", count, ", the number of inputs");
  check_names("input_names", numbered_names(options.input_names, count, "input"));
  check_names("output_names", options.output_names);
  for (const auto& [name, content] : options.extra_files) check_extra_file(name);
  std::map<std::string, DynamicDimension> seen;
  std::set<std::pair<std::size_t, int64_t>> dynamic_dimensions;
  for (const auto& dynamic : options.dynamic) {
    check_dimension(dynamic, example_inputs, seen);
    TORCH_CHECK_VALUE(dynamic_dimensions.emplace(dynamic.input, dynamic.dimension).second,
                      "dimension ", dynamic.dimension, " of input ", dynamic.input,
                      " is listed as dynamic more than once");
  }
}

void check_state_names(const torch::nn::Module& module) {
  // Attributes of Python modules: torch.nn.Module, torch.fx.GraphModule, torch.jit.ScriptModule.
  static const std::set<std::string> taken{"T_destination",
                                           "_backward_hooks",
                                           "_buffers",
                                           "_c",
                                           "_concrete_type",
                                           "_guards_fn",
                                           "_in_spec",
                                           "_initializing",
                                           "_modules",
                                           "_out_spec",
                                           "_parameters",
                                           "_replicate_for_data_parallel",
                                           "_state_dict_hooks",
                                           "_version",
                                           "add_module",
                                           "add_submodule",
                                           "apply",
                                           "bfloat16",
                                           "buffers",
                                           "call_super_init",
                                           "children",
                                           "code",
                                           "compile",
                                           "cpu",
                                           "cuda",
                                           "define",
                                           "double",
                                           "dump_patches",
                                           "eval",
                                           "extra_repr",
                                           "float",
                                           "forward",
                                           "get_buffer",
                                           "get_parameter",
                                           "get_submodule",
                                           "graph",
                                           "half",
                                           "inlined_graph",
                                           "ipu",
                                           "load_state_dict",
                                           "meta",
                                           "modules",
                                           "mtia",
                                           "named_buffers",
                                           "named_children",
                                           "named_modules",
                                           "named_parameters",
                                           "original_name",
                                           "parameters",
                                           "recompile",
                                           "register_buffer",
                                           "register_module",
                                           "register_parameter",
                                           "requires_grad_",
                                           "save",
                                           "set_submodule",
                                           "share_memory",
                                           "state_dict",
                                           "to",
                                           "to_empty",
                                           "train",
                                           "training",
                                           "type",
                                           "validate_inputs",
                                           "xpu",
                                           "zero_grad"};
  const auto check = [](const char* what, const std::string& path) {
    const auto name = path.substr(path.rfind('.') + 1);
    TORCH_CHECK_VALUE(
        is_word(name) && !is_reserved(name) && taken.count(name) == 0 && !name.starts_with("__"),
        "the name of a ", what,
        " must consist of letters, digits and _, without a leading __, and must not be a Python "
        "keyword or an attribute of torch.nn.Module, found '",
        path, "'; rename it before the export");
  };
  for (const auto& item : module.named_parameters()) check("parameter", item.key());
  for (const auto& item : module.named_buffers()) check("buffer", item.key());
  for (const auto& item : module.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    check("module", item.key());
  }
}

}  // namespace attend
