#include "export/pt2/module_stacks.h"

#include "export/program/node_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace attend::pt2 {
namespace {

/// Parts of the name of a module: {"decoder", "blocks", "0"}.
using Path = std::vector<std::string>;

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns the module of the weight `target`. If a part of its name contains a character that
/// separates parts of the metadata, returns an outer module.
Path module_of(const std::string& target) {
  Path path;
  std::size_t begin = 0;
  for (auto dot = target.find('.'); dot != target.npos; dot = target.find('.', begin)) {
    path.push_back(target.substr(begin, dot - begin));
    begin = dot + 1;
    if (!std::ranges::all_of(path.back(), is_alphanumeric)) {
      path.pop_back();
      break;
    }
  }
  return path;
}

Path common_part(const Path& one, const Path& other) {
  return {one.begin(), std::ranges::mismatch(one, other).in1};
}

/// Returns for each node the module of the weights that it reads, directly or through nodes that
/// read only weights, such as a transposition. Returns nullopt for nodes without weights.
std::vector<std::optional<Path>> modules_of_weights(const program::ExportedProgram& program) {
  std::map<std::string, Path> modules;  // of tensors that depend on weights only
  for (const auto& input : program.inputs) {
    const bool is_weight =
        input.kind == program::InputKind::parameter || input.kind == program::InputKind::buffer;
    if (is_weight) modules.emplace(input.name, module_of(input.target));
  }
  std::vector<std::optional<Path>> all;
  for (const auto& node : program.nodes) {
    std::optional<Path> module;
    bool reads_only_weights = true;
    for (const auto& input : node.inputs) {
      for (const auto& name : program::names_in(input.value)) {
        const auto found = modules.find(name);
        if (found == modules.end()) {
          reads_only_weights = false;
        } else {
          module = module ? common_part(*module, found->second) : found->second;
        }
      }
    }
    if (module && reads_only_weights) {
      for (const auto& output : node.outputs) {
        for (const auto& name : program::names_in(output)) modules.emplace(name, *module);
      }
    }
    all.push_back(std::move(module));
  }
  return all;
}

/// Returns the modules that contain `path`, from the outside to the inside, and `path` itself.
std::vector<std::string> stack_of(const Path& path) {
  std::vector<std::string> stack{""};
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto is_number = [](const std::string& part) {
      return std::isdigit(static_cast<unsigned char>(part.front())) != 0;
    };
    if (i + 1 < path.size() && is_number(path[i + 1])) continue;  // a list of modules
    const auto end = path.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    stack.push_back(fmt::format("{}", fmt::join(path.begin(), end, ".")));
  }
  return stack;
}

}  // namespace

std::vector<std::vector<std::string>> module_stacks(const program::ExportedProgram& program) {
  auto modules = modules_of_weights(program);
  // The modules of the previous and of the next call with weights. Before the first and after the
  // last such call, this is the exported module, whose path is empty.
  std::vector<Path> next(modules.size() + 1);
  for (auto i = modules.size(); i-- > 0;) next[i] = modules[i].value_or(next[i + 1]);
  std::vector<std::vector<std::string>> stacks;
  std::set<std::string> begun;  // modules that have been called
  Path previous;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    auto stack = stack_of(modules[i] ? *modules[i] : common_part(previous, next[i]));
    if (modules[i]) previous = *modules[i];
    const auto before = stacks.empty() ? std::vector<std::string>() : stacks.back();
    const auto is_second_call = [&](const std::string& name) { return !begun.insert(name).second; };
    stack.erase(std::find_if(std::ranges::mismatch(stack, before).in1, stack.end(), is_second_call),
                stack.end());
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::string module_stack_text(const std::vector<std::string>& stack) {
  std::vector<std::string> entries;
  for (const auto& name : stack) {
    entries.push_back(fmt::format("L__self__{0},{0},torch.nn.Module", name));
  }
  return fmt::format("{}", fmt::join(entries, ";"));
}

}  // namespace attend::pt2
