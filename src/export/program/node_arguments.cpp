#include "export/program/node_arguments.h"

namespace attend::program {

std::vector<std::string> names_in(const Argument& argument) {
  std::vector<std::string> names;
  if (const auto* tensor = std::get_if<TensorName>(&argument)) names.push_back(tensor->name);
  if (const auto* list = std::get_if<std::vector<TensorName>>(&argument)) {
    for (const auto& item : *list) names.push_back(item.name);
  }
  if (const auto* list = std::get_if<std::vector<OptionalTensor>>(&argument)) {
    for (const auto& item : *list) {
      if (const auto* tensor = std::get_if<TensorName>(&item)) names.push_back(tensor->name);
    }
  }
  return names;
}

}  // namespace attend::program
