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

thread_local std::unordered_map<const torch::jit::Node*, std::vector<void*>>* recording = nullptr;

void record(torch::jit::Node* node) {
  if (recording != nullptr) (*recording)[node] = torch::unwind::unwind();
}

/// The exporters' function that calls the traced function. This function and its callers are not
/// reported as call sites.
constexpr std::string_view kTracing = "attend::add_traced_method";

bool is_library(std::string_view function) {
  constexpr std::array<std::string_view, 7> kLibraries{"at::",
                                                       "c10::",
                                                       "torch::",
                                                       "std::",
                                                       "__gnu_cxx::",
                                                       "??",
                                                       "attend::(anonymous namespace)::record"};
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

/// Returns the source locations of frames, or an empty list if addr2line (binutils) is not
/// installed.
std::vector<torch::unwind::Frame> symbolize(const std::vector<void*>& frames) {
  try {
    return torch::unwind::symbolize(frames, torch::unwind::Mode::addr2line);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

std::string CallSites::text_of(const torch::jit::Node& node) const {
  const auto stack = stacks_.find(&node);
  if (stack == stacks_.end()) return "";
  std::vector<void*> frames;
  for (auto* address : stack->second) {
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
    // A library function is skipped; the next frame is its caller. If the caller was inlined, all
    // frames may be library functions. Then the outermost one is returned.
  }
  return found;
}

bool CallSites::same(const torch::jit::Node& node, const CallSites& others,
                     const torch::jit::Node& other) const {
  const auto one = stacks_.find(&node);
  const auto two = others.stacks_.find(&other);
  if (one == stacks_.end() || two == others.stacks_.end())
    return true;  // no call stacks to compare
  return one->second == two->second;
}

RecordCallSites::RecordCallSites(CallSites& sites) {
  recording = &sites.stacks_;
  torch::jit::tracer::setRecordSourceLocation(record);
}

RecordCallSites::~RecordCallSites() {
  recording = nullptr;
}

}  // namespace attend
