// Measures the time and memory of causal attention on long sequences, with different attention
// hooks. Compares the times with the time of causal attention without hooks.
//
//     bench_long_attention [LENGTH...]        default: 1024 2048 4096 8192
//
// Batch size 1, width 512, 8 heads, float32. Memory is the peak memory of the tensors allocated
// during the measured passes.
#include "attend/nn/alibi.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/sliding_window.h"
#include "support/live_bytes.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

struct Case {
  const char* name;
  std::vector<attend::AttentionHookFactory> hooks = {};
};

struct Cost {
  double seconds;
  double mebibytes;
};

/// Returns the shortest time of three calls after a warm-up call, and the peak memory of the last
/// call.
Cost cost_of(attend::MultiheadAttention& attention, const torch::Tensor& x, bool with_gradients) {
  const torch::AutoGradMode grad_mode(with_gradients);
  Cost cost{1e9, 0.0};
  for (int i = 0; i < 4; ++i) {
    const attend::LiveBytes live;
    const auto begin = std::chrono::steady_clock::now();
    const auto y = attention->forward(x, {.causal = true}).output;
    if (with_gradients) y.sum().backward();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) cost.seconds = std::min(cost.seconds, time.count());
    cost.mebibytes = static_cast<double>(live.peak()) / (1 << 20);
    attention->zero_grad();
  }
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> lengths;
  for (int i = 1; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
  if (lengths.empty()) lengths = {1024, 2048, 4096, 8192};
  std::printf("%d threads\n%-24s %6s  %10s %8s %10s  %10s %8s %10s\n", at::get_num_threads(), "",
              "T", "forward", "/causal", "memory", "+backward", "/causal", "memory");
  const std::vector<Case> cases{
      {"causal"},
      {"sliding_window(256)", {attend::sliding_window(256)}},
      {"sliding_window(1024)", {attend::sliding_window(1024)}},
      {"alibi", {attend::alibi()}},
      {"relative_bias", {attend::relative_bias({.bidirectional = false})}}};
  for (const auto length : lengths) {
    const auto x = torch::randn({1, length, 512});
    Cost causal[2] = {};
    for (const auto& each : cases) {
      attend::MultiheadAttention attention(
          attend::MultiheadAttentionOptions(512, 8).hooks(each.hooks));
      std::printf("%-24s %6lld", each.name, static_cast<long long>(length));
      for (const bool with_gradients : {false, true}) {
        const auto cost = cost_of(attention, x, with_gradients);
        auto& reference = causal[with_gradients ? 1 : 0];
        if (each.hooks.empty()) reference = cost;
        std::printf("  %8.1fms %7.2fx %7.0fMiB", 1e3 * cost.seconds,
                    cost.seconds / reference.seconds, cost.mebibytes);
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
}
