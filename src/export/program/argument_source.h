#pragma once

#include "export/program/places.h"
#include "export/program/program.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend::program {

using Values = std::vector<c10::IValue>;  // of names, by their places

/// Where an argument comes from when a step runs.
struct Source {
  std::function<c10::IValue(const Values&)> read;
  std::vector<std::size_t> places;  ///< that it reads
};

/// Of what is the same in each run.
Source constant_source(const c10::IValue& value);

/// Of an argument for which the operator's schema asks for a `type`. Throws InputError for names
/// that are not given before.
Source source_of(const Argument& argument, const c10::TypePtr& type, torch::Device device,
                 const Places& places);

}  // namespace attend::program
