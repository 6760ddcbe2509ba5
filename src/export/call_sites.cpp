#include "export/call_sites.h"

#include "export/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

namespace attend {
namespace {

namespace jit = torch::jit;

using CallStacks = std::unordered_map<const jit::Node*, CallStack>;

thread_local CallStacks* recording = nullptr;

/// Assigns the call stack to the nodes that the operator added to the trace. There are none if the
/// operator was called inside of one that is itself a node of the trace: LibTorch disables the
/// tracer while such an operator runs.
void record_call_stack(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const auto nodes = nodes_of_call(context);
  if (recording == nullptr || nodes.empty()) return;
  const auto stack = torch::unwind::unwind();
  // Other nodes are recorded already, by inner operators.
  for (const auto* node : nodes) recording->try_emplace(node, stack);
}

/// Name of the function with which the exporters start each trace. `call_site_texts` ignores the
/// frames of this function and of its callers.
constexpr std::string_view kTracing = "attend::add_traced_method";

/// `file`: path of the source, or "". If it is known, it decides: addr2line names inlined functions
/// without their namespace, and the innermost of them like the function into which all are inlined,
/// which may be a function of std that calls a lambda of the user.
bool is_library(std::string_view function, std::string_view file) {
  constexpr std::string_view kRecording = "attend::(anonymous namespace)::record_";
  constexpr std::array<std::string_view, 6> kLibraries{
      "at::", "c10::", "torch::", "std::", "__gnu_cxx::", "??"};
  constexpr std::array<std::string_view, 4> kHeaders{"/include/c++/", "/include/ATen/",
                                                     "/include/c10/", "/include/torch/"};
  const auto begins = [&](std::string_view name) { return function.starts_with(name); };
  const auto contains = [&](std::string_view name) { return file.find(name) != file.npos; };
  if (function.empty() || begins(kRecording)) return true;
  return file.empty() ? std::any_of(kLibraries.begin(), kLibraries.end(), begins)
                      : std::any_of(kHeaders.begin(), kHeaders.end(), contains);
}

/// Returns a function name without its parameters. If the function is the handler of a
/// std::function, returns the name of the function that the std::function calls.
std::string name_of(std::string function) {
  constexpr std::string_view kCaller = "std::_Function_handler<";
  if (function.starts_with(kCaller)) {
    const auto called = function.find("), ");  // end of the std::function's signature
    if (called != std::string::npos) function = function.substr(called + 3);
  }
  if (function.starts_with("operator()")) return "lambda";  // inlined
  constexpr std::string_view kLambda = "{lambda";
  const auto lambda = function.find(kLambda);
  if (lambda != std::string::npos) return function.substr(0, lambda) + "lambda";
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  auto end = function.find('(');
  while (end != std::string::npos && function.compare(end, kUnnamed.size(), kUnnamed) == 0) {
    end = function.find('(', end + kUnnamed.size());
  }
  return function.substr(0, end);
}

bool is_torch_library(void* address) {
  const auto library = torch::unwind::libraryFor(address);
  if (!library) return true;
  const auto file = std::filesystem::path(library->first).filename().string();
  return file.starts_with("libtorch") || file.starts_with("libc10");
}

/// A function on a call stack.
struct Frame {
  std::string function;
  std::string location;  // "PATH:LINE", or "" without debug information
};

/// Returns the lines that a command prints, or {} if it cannot be run.
std::vector<std::string> lines_of(const std::string& command) {
  std::vector<std::string> lines;
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t length = 0; output && (length = getline(&line, &capacity, output.get())) > 0;) {
    lines.emplace_back(line, line[length - 1] == '\n' ? length - 1 : length);
  }
  std::free(line);  // NOLINT: allocated by getline
  return lines;
}

using Frames = std::map<void*, std::vector<Frame>>;  // by address

/// Returns the functions at each address, the innermost first: several if calls were inlined. Omits
/// LibTorch's libraries. Runs addr2line (binutils) once for each file, since each run reads all
/// symbols of the file. Returns {} if it is not installed.
Frames symbolize(const std::set<void*>& addresses) {
  struct Place {
    void* address;
    uint64_t offset;
  };
  std::map<std::string, std::vector<Place>> places;  // by file
  for (auto* address : addresses) {
    if (is_torch_library(address)) continue;
    const auto [file, offset] = *torch::unwind::libraryFor(address);
    places[file].push_back({address, offset - 1});  // `address` is that of the next instruction
  }
  Frames frames;
  for (const auto& [file, some] : places) {
    auto command = fmt::format("addr2line -aifC -e '{}' 2>/dev/null",
                               std::regex_replace(file, std::regex("'"), "'\\''"));
    for (const auto& place : some) command += fmt::format(" {:#x}", place.offset);
    const auto lines = lines_of(command);
    // Each address is printed, then the function and the location of each frame.
    std::size_t next = 0;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      if (lines[i].starts_with("0x")) {
        ++next;
        continue;
      }
      const auto location = lines[i + 1].substr(0, lines[i + 1].find(" (discriminator"));
      const bool is_known = !location.starts_with('?') && !location.ends_with('?');
      frames[some.at(next - 1).address].push_back({lines[i], is_known ? location : ""});
      ++i;
    }
  }
  return frames;
}

/// Returns the call site in a call stack, see `call_site_texts`. Its function is "" if there is
/// none.
Frame call_site(const CallStack& stack, const Frames& frames) {
  // A function of the user's own is the call site, or else the innermost function of attend. If all
  // of them were inlined and there is no debug information, the outermost library function is
  // named.
  Frame in_attend, outermost;
  for (auto* address : stack) {
    const auto found = frames.find(address);
    if (found == frames.end()) continue;
    for (const auto& [function, location] : found->second) {
      if (function.find(kTracing) != std::string::npos) {
        return in_attend.function.empty() ? outermost : in_attend;
      }
      const Frame frame{name_of(function), location};
      if (is_library(function, location)) {
        outermost = frame;
      } else if (!function.starts_with("attend::")) {
        return frame;
      } else if (in_attend.function.empty()) {
        in_attend = frame;
      }
    }
  }
  return in_attend.function.empty() ? outermost : in_attend;
}

/// Returns the call site in each call stack.
std::vector<Frame> call_sites(const std::vector<CallStack>& stacks) {
  std::set<void*> addresses;
  for (const auto& stack : stacks) addresses.insert(stack.begin(), stack.end());
  const auto frames = symbolize(addresses);
  std::vector<Frame> sites;
  for (const auto& stack : stacks) sites.push_back(call_site(stack, frames));
  return sites;
}

/// Parts of the name of a module: {"encoder", "layers", "3"}.
using Path = std::vector<std::string>;

/// Returns the module of the weights that a node reads, or nullopt if it reads none.
std::optional<Path> module_of_weights(const jit::Node& node) {
  for (const auto* input : node.inputs()) {
    if (input->node()->kind() != c10::prim::GetAttr || !input->type()->cast<c10::TensorType>()) {
      continue;
    }
    Path path;
    for (const auto* owner = input->node()->input(); owner->node()->kind() == c10::prim::GetAttr;
         owner = owner->node()->input()) {
      path.insert(path.begin(), owner->node()->s(jit::attr::name));
    }
    return path;
  }
  return std::nullopt;
}

/// Returns the module that probably calls a node: that of the weights that it reads or, for other
/// nodes, the smallest module that contains the previous and the next node with weights.
Path module_of(const jit::Node& node) {
  if (const auto own = module_of_weights(node)) return *own;
  std::optional<Path> before, after;
  const auto* end = node.owningGraph()->return_node();
  for (const auto* other = node.prev(); !before && other != end; other = other->prev()) {
    before = module_of_weights(*other);
  }
  for (const auto* other = node.next(); !after && other != end; other = other->next()) {
    after = module_of_weights(*other);
  }
  if (!before || !after) return {};
  return {before->begin(), std::ranges::mismatch(*before, *after).in1};
}

}  // namespace

std::vector<std::string> call_site_texts(const std::vector<CallStack>& stacks) {
  std::vector<std::string> texts;
  for (const auto& [function, location] : call_sites(stacks)) {
    texts.push_back(function.empty() ? "" : ", called from " + function);
    const auto file_and_line = std::filesystem::path(location).filename().string();
    if (!file_and_line.empty()) texts.back() += fmt::format(" ({})", file_and_line);
  }
  return texts;
}

StackTraces CallSites::stack_traces() const {
  std::vector<CallStack> stacks;
  for (const auto& [node, stack] : stacks_) stacks.push_back(stack);
  const auto sites = call_sites(stacks);
  auto site = sites.begin();
  StackTraces traces;
  for (const auto& [node, stack] : stacks_) {
    const auto& [function, location] = *site++;
    const auto colon = location.rfind(':');
    if (colon == std::string::npos) continue;
    traces.emplace(node, fmt::format("File \"{}\", line {}, in {}", location.substr(0, colon),
                                     location.substr(colon + 1), function));
  }
  return traces;
}

std::string CallSites::text_of(const jit::Node& node) const {
  const auto stack = stacks_.find(&node);
  auto text = stack == stacks_.end() ? "" : call_site_texts({stack->second}).front();
  const bool has_line = text.ends_with(')') && std::isdigit(text[text.size() - 2]) != 0;
  if (has_line) return text;
  const auto path = module_of(node);
  return path.empty() ? text : fmt::format("{}, in the module {}", text, fmt::join(path, "."));
}

bool CallSites::same(const torch::jit::Node& node, const CallSites& others,
                     const torch::jit::Node& other) const {
  const auto one = stacks_.find(&node);
  const auto two = others.stacks_.find(&other);
  if (one == stacks_.end() || two == others.stacks_.end())
    return true;  // no call stacks to compare
  return one->second == two->second;
}

RecordCallSites::RecordCallSites(CallSites& sites)
    : callback_(at::RecordFunctionCallback(start_call, record_call_stack)) {
  recording = &sites.stacks_;
}

RecordCallSites::~RecordCallSites() {
  recording = nullptr;
}

}  // namespace attend
