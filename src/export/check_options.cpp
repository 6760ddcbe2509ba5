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

/// Files become Python's source when they are loaded there.
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

constexpr const char* kWords =
    " must be of letters, digits and _, begin with no digit and be no word of Python, found '";

void check_names(const char* what, const std::vector<std::string>& names) {
  std::set<std::string> met;
  for (const auto& name : names) {
    check_name(what, name);
    TORCH_CHECK_VALUE(met.insert(name).second, what, " must differ, found '", name, "' twice");
  }
}

void check_dimension(const DynamicDimension& dynamic, const std::vector<torch::Tensor>& inputs,
                     std::map<std::string, DynamicDimension>& met) {
  check_name("a dynamic dimension's name", dynamic.name);
  TORCH_CHECK_VALUE(dynamic.input < inputs.size(), "dynamic dimension '", dynamic.name,
                    "' is of input ", dynamic.input, ", there are ", inputs.size());
  const auto& input = inputs[dynamic.input];
  TORCH_CHECK_VALUE(dynamic.dimension >= 0 && dynamic.dimension < input.dim(),
                    "dynamic dimension '", dynamic.name, "' is dimension ", dynamic.dimension,
                    " of input ", dynamic.input, ", which has ", input.dim());
  const auto size = input.size(dynamic.dimension);
  TORCH_CHECK_VALUE(dynamic.least >= 1, "dynamic dimension '", dynamic.name,
                    "' must be 1 or more, its least size is ", dynamic.least);
  TORCH_CHECK_VALUE(dynamic.least <= size && size <= dynamic.greatest, "dynamic dimension '",
                    dynamic.name, "' must be from ", dynamic.least, " to ", dynamic.greatest,
                    ", the example's is ", size);
  const auto [first, is_new] = met.emplace(dynamic.name, dynamic);
  const auto& other = first->second;
  TORCH_CHECK_VALUE(is_new || inputs[other.input].size(other.dimension) == size,
                    "dynamic dimension '", dynamic.name,
                    "' is one size in several places, the example's are ",
                    inputs[other.input].size(other.dimension), " and ", size);
  TORCH_CHECK_VALUE(other.least == dynamic.least && other.greatest == dynamic.greatest,
                    "dynamic dimension '", dynamic.name,
                    "' must have the same bounds everywhere, found ", other.least, " to ",
                    other.greatest, " and ", dynamic.least, " to ", dynamic.greatest);
}

void check_extra_file(const std::string& name) {
  const std::filesystem::path path(name);
  const bool leaves = std::any_of(path.begin(), path.end(), [](const auto& part) {
    return part.empty() || part == "." || part == "..";
  });
  const bool is_plain = name.find_first_of(std::string_view("\0\\", 2)) == std::string::npos &&
                        replace_invalid_utf8(name) == name;
  TORCH_CHECK_VALUE(!name.empty() && path.is_relative() && !leaves && is_plain,
                    "the name of an extra file must be a path below the file's folder, found '",
                    name, "'");
}

}  // namespace

void check_name(const char* what, const std::string& name) {
  TORCH_CHECK_VALUE(is_identifier(name), what, kWords, name, "'");
}

void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs) {
  // Written so that a NaN fails, too.
  TORCH_CHECK_VALUE(options.tolerance >= 0.0, "tolerance (", options.tolerance,
                    ") must be 0 or more");
  const auto count = example_inputs.size();
  TORCH_CHECK_VALUE(count > 0, "example_inputs (0) must hold at least one tensor");
  for (std::size_t i = 0; i < count; ++i) {
    TORCH_CHECK_VALUE(example_inputs[i].defined(), "example input ", i,
                      " must be a tensor, found none");
  }
  TORCH_CHECK_VALUE(options.input_names.size() <= count, "input_names (",
                    options.input_names.size(), ") must not be more than the inputs (", count, ")");
  check_names("input_names", numbered_names(options.input_names, count, "input"));
  check_names("output_names", options.output_names);
  for (const auto& [name, content] : options.extra_files) check_extra_file(name);
  std::map<std::string, DynamicDimension> met;
  std::set<std::pair<std::size_t, int64_t>> places;
  for (const auto& dynamic : options.dynamic) {
    check_dimension(dynamic, example_inputs, met);
    TORCH_CHECK_VALUE(places.emplace(dynamic.input, dynamic.dimension).second, "dimension ",
                      dynamic.dimension, " of input ", dynamic.input, " is dynamic twice");
  }
}

void check_state_names(const torch::nn::Module& module) {
  // What modules have themselves in Python, of torch.nn, torch.fx and torch.jit.
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
        " must be of letters, digits and _, begin with no __ and be no word of Python or name that "
        "its modules have, found '",
        path, "'");
  };
  for (const auto& item : module.named_parameters()) check("parameter", item.key());
  for (const auto& item : module.named_buffers()) check("buffer", item.key());
  for (const auto& item : module.named_modules(/*name_prefix=*/{}, /*include_self=*/false)) {
    check("module", item.key());
  }
}

}  // namespace attend
