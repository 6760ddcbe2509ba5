#include "export/values_read.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

namespace attend {
namespace {

/// Maximum number of recorded call stacks. A limit is needed, since a recursion may read values at
/// many of them.
constexpr std::size_t kMaxReads = 64;

thread_local std::vector<RecordValuesRead::Read>* recorded_reads = nullptr;
thread_local int running_reads = 0;  // number of running operators that read values

/// Returns true for the operators whose result is a C++ number or Boolean that depends on values of
/// tensors.
bool reads_values(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOperators{"aten::_local_scalar_dense",
                                                       "aten::allclose", "aten::equal",
                                                       "aten::is_nonzero", "aten::item"};
  return std::find(kOperators.begin(), kOperators.end(), name) != kOperators.end();
}

struct Reading : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> record_read_start(const at::RecordFunction& function) {
  // The tracer is disabled inside a traced operator, so values that the operator reads are ignored.
  if (recorded_reads == nullptr || !torch::jit::tracer::isTracing() ||
      !reads_values(function.name())) {
    return nullptr;
  }
  if (running_reads++ == 0 && recorded_reads->size() < kMaxReads) {
    auto stack = torch::unwind::unwind();
    const bool is_known = std::any_of(recorded_reads->begin(), recorded_reads->end(),
                                      [&](const auto& read) { return read.stack == stack; });
    if (!is_known) recorded_reads->push_back({function.name(), std::move(stack)});
  }
  return std::make_unique<Reading>();
}

void record_read_end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) --running_reads;
}

}  // namespace

RecordValuesRead::RecordValuesRead()
    : callback_(at::RecordFunctionCallback(record_read_start, record_read_end)) {
  recorded_reads = &reads_;
}

RecordValuesRead::~RecordValuesRead() {
  recorded_reads = nullptr;
}

std::vector<std::string> RecordValuesRead::texts() const {
  std::vector<CallStack> stacks;
  for (const auto& read : reads_) stacks.push_back(read.stack);
  const auto call_sites = call_site_texts(stacks);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    const auto text = reads_[i].name + call_sites[i];
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

}  // namespace attend
