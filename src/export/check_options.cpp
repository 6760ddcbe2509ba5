#include "export/check_options.h"

#include "attend/io/utf8.h"
#include "export/check_names.h"
#include "export/numbered_names.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace attend {
namespace {

void check_names(const char* what, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const auto& name : names) {
    TORCH_CHECK_VALUE(!name.empty() && replace_invalid_utf8(name) == name, what,
                      " must be non-empty UTF-8, found '", name, "'");
    TORCH_CHECK_VALUE(seen.insert(name).second, what, " must be unique, found '", name,
                      "' more than once");
  }
}

void check_dimension(const DynamicDimension& dynamic, const std::vector<torch::Tensor>& inputs,
                     std::map<std::string, DynamicDimension>& seen) {
  check_names("the name of a dynamic dimension", {dynamic.name});
  TORCH_CHECK_VALUE(dynamic.input < inputs.size(), "dynamic dimension '", dynamic.name,
                    "': input (", dynamic.input, ") must be less than the number of inputs (",
                    inputs.size(), ")");
  const auto& input = inputs[dynamic.input];
  TORCH_CHECK_VALUE(dynamic.dimension >= 0 && dynamic.dimension < input.dim(),
                    "dynamic dimension '", dynamic.name, "': dimension (", dynamic.dimension,
                    ") must be 0 or more and less than the number of dimensions of input ",
                    dynamic.input, " (", input.dim(), ")");
  const auto size = input.size(dynamic.dimension);
  TORCH_CHECK_VALUE(dynamic.min >= 0, "dynamic dimension '", dynamic.name, "': min (", dynamic.min,
                    ") must be 0 or more");
  TORCH_CHECK_VALUE(dynamic.min <= size && size <= dynamic.max, "dynamic dimension '", dynamic.name,
                    "': the size of the example input (", size, ") must be between min (",
                    dynamic.min, ") and max (", dynamic.max, ")");
  TORCH_CHECK_VALUE(size > 0, "dynamic dimension '", dynamic.name,
                    "': the size of the example input (", size,
                    ") must be 1 or more: larger inputs repeat its elements");
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
                    "the name of an extra file must be a relative path in UTF-8 without NUL "
                    "characters, backslashes, a slash at the end, or a component '.' or '..', "
                    "found '",
                    name, "'");
}

}  // namespace

void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs,
                   TargetFormat format) {
  // The comparison is also false if the tolerance is NaN.
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
  const auto input_names = numbered_names(options.input_names, count, "input");
  check_names("each name in input_names", input_names);
  for (const auto& name : input_names) check_input_name(name, format);
  for (const auto& argument : options.arguments) check_input_name(argument.name, format);
  check_names("each name in output_names", options.output_names);
  for (const auto& [name, content] : options.extra_files) check_extra_file(name);
  std::map<std::string, DynamicDimension> seen;
  std::set<std::pair<std::size_t, int64_t>> dynamic_dimensions;
  for (const auto& dynamic : options.dynamic) {
    check_dimension(dynamic, example_inputs, seen);
    TORCH_CHECK_VALUE(format != TargetFormat::pt2 || dynamic.max > 2 || dynamic.min == dynamic.max,
                      "dynamic dimension '", dynamic.name, "': found the sizes ", dynamic.min,
                      " to ", dynamic.max,
                      ", expected a max of 3 or more for a .pt2 archive, because "
                      "PyTorch's compilers treat a dimension with a smaller max as constant");
    TORCH_CHECK_VALUE(dynamic_dimensions.emplace(dynamic.input, dynamic.dimension).second,
                      "dimension ", dynamic.dimension, " of input ", dynamic.input,
                      " is listed as dynamic more than once");
  }
}

void check_methods(const std::vector<TracedMethod>& methods, const std::string& forward,
                   TargetFormat format) {
  std::set<std::string> seen;
  for (const auto& method : methods) {
    check_method_name(method.name);
    TORCH_CHECK_VALUE(method.name != forward, "method names must differ from '", forward,
                      "', which every file contains");
    TORCH_CHECK_VALUE(seen.insert(method.name).second, "method names must be unique, found '",
                      method.name, "' more than once");
    try {
      check_options({.input_names = method.input_names,
                     .dynamic = method.dynamic,
                     .arguments = method.arguments},
                    method.example_inputs, format);
    } catch (const c10::Error& error) {
      TORCH_CHECK_VALUE(false, "method '", method.name, "': ", error.what_without_backtrace());
    }
  }
}

}  // namespace attend
