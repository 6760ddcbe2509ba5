#include "export/check_options.h"

#include "export/numbered_names.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace attend {
namespace {

bool is_identifier(const std::string& name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), is_word);
}

void check_names(const char* what, const std::vector<std::string>& names) {
  std::set<std::string> met;
  for (const auto& name : names) {
    TORCH_CHECK_VALUE(is_identifier(name), what, " must be of letters, digits and _, found '", name,
                      "'");
    TORCH_CHECK_VALUE(met.insert(name).second, what, " must differ, found '", name, "' twice");
  }
}

void check_dimension(const DynamicDimension& dynamic, const std::vector<torch::Tensor>& inputs,
                     std::map<std::string, DynamicDimension>& met) {
  TORCH_CHECK_VALUE(is_identifier(dynamic.name),
                    "a dynamic dimension's name must be of letters, digits and _, found '",
                    dynamic.name, "'");
  TORCH_CHECK_VALUE(dynamic.input < inputs.size(), "dynamic dimension '", dynamic.name,
                    "' is of input ", dynamic.input, ", there are ", inputs.size());
  const auto& input = inputs[dynamic.input];
  TORCH_CHECK_VALUE(dynamic.dimension >= 0 && dynamic.dimension < input.dim(),
                    "dynamic dimension '", dynamic.name, "' is dimension ", dynamic.dimension,
                    " of input ", dynamic.input, ", which has ", input.dim());
  const auto size = input.size(dynamic.dimension);
  TORCH_CHECK_VALUE(dynamic.least >= 1 && dynamic.least <= size && size <= dynamic.greatest,
                    "dynamic dimension '", dynamic.name, "' must be 1 or more and from ",
                    dynamic.least, " to ", dynamic.greatest, ", the example's is ", size);
  const auto [first, is_new] = met.emplace(dynamic.name, dynamic);
  const auto& other = first->second;
  TORCH_CHECK_VALUE(is_new || inputs[other.input].size(other.dimension) == size,
                    "dynamic dimension '", dynamic.name,
                    "' is one size in several places, the example's are ",
                    inputs[other.input].size(other.dimension), " and ", size);
  TORCH_CHECK_VALUE(other.least == dynamic.least && other.greatest == dynamic.greatest,
                    "dynamic dimension '", dynamic.name, "' must have the same bounds everywhere");
}

}  // namespace

void check_options(const ExportOptions& options, const std::vector<torch::Tensor>& example_inputs) {
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
  std::map<std::string, DynamicDimension> met;
  std::set<std::pair<std::size_t, int64_t>> places;
  for (const auto& dynamic : options.dynamic) {
    check_dimension(dynamic, example_inputs, met);
    TORCH_CHECK_VALUE(places.emplace(dynamic.input, dynamic.dimension).second, "dimension ",
                      dynamic.dimension, " of input ", dynamic.input, " is dynamic twice");
  }
}

}  // namespace attend
