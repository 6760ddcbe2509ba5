#pragma once

#include "program/exported_program.h"

#include <string>
#include <vector>

namespace attend::pt2 {

/// Returns the names of the modules that call each node, from the outside to the inside, such as
/// {"", "decoder", "decoder.blocks.0"}. The name of the exported module is "". LibTorch's tracer
/// does not record modules, so they are derived from the weights: a call that reads weights belongs
/// to the module of these weights, and any other call to the smallest module that contains the
/// previous and the next call with weights. As in torch.export, a list of modules, whose elements
/// are named by numbers, is not contained. A module is called once: if weights of a module are read
/// again after its call, for example tied weights, the second call belongs to the outer module.
std::vector<std::vector<std::string>> module_stacks(const program::ExportedProgram& program);

/// Returns a stack in the form of the metadata `nn_module_stack` in torch.export's schema:
/// "KEY,NAME,CLASS" for each module, separated by semicolons.
std::string module_stack_text(const std::vector<std::string>& stack);

}  // namespace attend::pt2
