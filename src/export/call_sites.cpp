#include "export/call_sites.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace attend {
namespace {

namespace jit = torch::jit;

using CallStacks = std::unordered_map<const jit::Node*, std::vector<void*>>;

thread_local CallStacks* recording = nullptr;

/// Returns the newest node of the trace on this thread.
const jit::Node* newest_node() {
  return jit::tracer::getTracingState()->graph->block()->return_node()->prev();
}

/// A running operator call in a trace.
struct RunningCall : at::ObserverContext {
  std::vector<void*> stack;
  const jit::Node* last_node_before;
};

/// Records the call stack of an operator call. Ignores calls inside of an operator that is itself a
/// node of the trace: LibTorch disables the tracer while such an operator runs.
std::unique_ptr<at::ObserverContext> record_start(const at::RecordFunction& /*function*/) {
  if (!jit::tracer::isTracing()) return nullptr;
  auto call = std::make_unique<RunningCall>();
  call->stack = torch::unwind::unwind();
  call->last_node_before = newest_node();
  return call;
}

/// Assigns the call stack to the nodes that the operator added to the trace.
void record_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr || !jit::tracer::isTracing()) return;
  const auto& call = *static_cast<RunningCall*>(context);
  for (const auto* node = newest_node(); node != call.last_node_before; node = node->prev()) {
    if (!recording->try_emplace(node, call.stack).second) return;  // recorded by an inner operator
  }
}

/// Name of the function with which the exporters start each trace. `call_site_text` ignores the
/// frames of this function and of its callers.
constexpr std::string_view kTracing = "attend::add_traced_method";

bool is_library(std::string_view function) {
  constexpr std::array<std::string_view, 7> kLibraries{"at::",
                                                       "c10::",
                                                       "torch::",
                                                       "std::",
                                                       "__gnu_cxx::",
                                                       "??",
                                                       "attend::(anonymous namespace)::record_"};
  const auto begins = [&](std::string_view name) { return function.starts_with(name); };
  return function.empty() || std::any_of(kLibraries.begin(), kLibraries.end(), begins);
}

/// Returns a function name without its parameters. If the function is the handler of a
/// std::function, returns the name of the function that the std::function calls.
std::string name_of(std::string function) {
  constexpr std::string_view kCaller = "std::_Function_handler<";
  if (function.starts_with(kCaller)) {
    const auto called = function.find("), ");  // end of the std::function's signature
    if (called != std::string::npos) function = function.substr(called + 3);
  }
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

/// Returns the function names and source locations of frames. Returns an empty list if addr2line
/// (binutils) is not installed.
std::vector<torch::unwind::Frame> symbolize(const std::vector<void*>& frames) {
  try {
    return torch::unwind::symbolize(frames, torch::unwind::Mode::addr2line);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

std::string call_site_text(const std::vector<void*>& stack) {
  std::vector<void*> frames;
  for (auto* address : stack) {
    if (!is_torch_library(address)) frames.push_back(address);
  }
  std::string found;
  for (const auto& frame : symbolize(frames)) {
    if (frame.funcname.find(kTracing) != std::string::npos) break;
    found = fmt::format(", called from {}", name_of(frame.funcname));
    if (frame.lineno > 0) {
      const auto file = std::filesystem::path(frame.filename).filename().string();
      found += fmt::format(" ({}:{})", file, frame.lineno);
    }
    if (!is_library(frame.funcname)) break;
    // A library function is not the call site, so the loop continues with its caller, the next
    // frame. If the caller was inlined, all frames may belong to library functions. Then the text
    // names the outermost library function.
  }
  return found;
}

std::string CallSites::text_of(const jit::Node& node) const {
  const auto stack = stacks_.find(&node);
  return stack == stacks_.end() ? "" : call_site_text(stack->second);
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
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(record_start, record_end)
                                               .scopes({at::RecordScope::FUNCTION}))),
      previous_(recording) {
  recording = &sites.stacks_;
}

RecordCallSites::~RecordCallSites() {
  at::removeCallback(callback_);
  recording = static_cast<CallStacks*>(previous_);
}

}  // namespace attend
