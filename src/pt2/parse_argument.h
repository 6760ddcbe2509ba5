#pragma once

#include "program/exported_program.h"
#include "pt2/json_value.h"

#include <functional>
#include <vector>

namespace attend::pt2 {

/// Parses a value of the union type Argument in torch.export's schema. Arguments and outputs of
/// nodes have this type, and so do inputs and outputs of graphs. Throws InputError if the kind of
/// argument is not supported.
program::Argument argument_of(const JsonValue& value);
program::TensorName tensor_of(const JsonValue& value);
program::Device device_of(const JsonValue& value);

template <typename T, typename Read>
std::vector<T> list_of(const JsonValue& list, const Read& read) {
  std::vector<T> all;
  for (const auto& item : list.items()) all.emplace_back(std::invoke(read, item));
  return all;
}

}  // namespace attend::pt2
