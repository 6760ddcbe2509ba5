#include "nn/kv_cache_allocation.h"

#include "nn/checks.h"

#include <unistd.h>

#include <iomanip>
#include <sstream>
#include <string>

namespace attend {
namespace {

void check_set(const char* option, int64_t value) {
  TORCH_CHECK_VALUE(value != -1, "KvCacheOptions: ", option, " is required, but not set");
}

/// Returns the memory of this machine in bytes. The limit of a container may be lower.
double machine_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Returns a number of bytes as a text, for example "1.5 GiB".
std::string gibibytes(double bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << bytes / (1 << 30) << " GiB";
  return text.str();
}

/// Returns a text with the options of the KvCache and the size of its keys and values, for error
/// messages.
std::string allocation_text(const KvCacheOptions& options, double bytes) {
  std::ostringstream text;
  text << "the KvCache needs " << gibibytes(bytes) << " for the keys and values with num_layers ("
       << options.num_layers() << "), batch_size (" << options.batch_size() << "), num_kv_heads ("
       << options.num_kv_heads() << "), max_seq_len (" << options.max_seq_len() << "), head_dim ("
       << options.head_dim() << ") in " << options.dtype();
  return text.str();
}

/// Returns how many bytes the keys and values need for `max_seq_len` tokens. Returns a double,
/// since an integer may overflow.
double allocation_bytes(const KvCacheOptions& options) {
  double bytes = 2.0 * static_cast<double>(c10::elementSize(options.dtype()));
  for (const auto size : {options.num_layers(), options.batch_size(), options.num_kv_heads(),
                          options.max_seq_len(), options.head_dim()}) {
    bytes *= static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

void check_options(const KvCacheOptions& options) {
  check_set("max_seq_len", options.max_seq_len());
  check_set("num_layers", options.num_layers());
  check_set("batch_size", options.batch_size());
  check_set("num_kv_heads", options.num_kv_heads());
  check_set("head_dim", options.head_dim());
  check_not_negative("num_layers", options.num_layers());
  check_not_negative("batch_size", options.batch_size());
  check_positive("num_kv_heads", options.num_kv_heads());
  check_positive("head_dim", options.head_dim());
  check_positive("max_seq_len", options.max_seq_len());
  check_not_negative("sliding_window", options.sliding_window());
  TORCH_CHECK_VALUE(options.sliding_window() <= options.max_seq_len(), "sliding_window (",
                    options.sliding_window(), ") must be at most max_seq_len (",
                    options.max_seq_len(), ")");
}

void allocate(const KvCacheOptions& options, std::vector<torch::Tensor>& keys,
              std::vector<torch::Tensor>& values) {
  const auto bytes = allocation_bytes(options);
  // The size is checked before the allocation. On a system that overcommits memory, an allocation
  // that is too large succeeds, and the system kills the process later.
  TORCH_CHECK_WITH(OutOfMemoryError, !options.device().is_cpu() || bytes <= machine_memory(),
                   allocation_text(options, bytes), "; this machine has ",
                   gibibytes(machine_memory()),
                   " of memory: reduce e.g. max_seq_len or batch_size");
  const std::vector<int64_t> shape{options.batch_size(), options.num_kv_heads(),
                                   options.max_seq_len() + 1, options.head_dim()};
  const auto tensor_options = torch::TensorOptions(options.dtype()).device(options.device());
  try {
    for (int64_t layer = 0; layer < options.num_layers(); ++layer) {
      // Not torch::empty, because uninitialized memory may contain NaN. Masked keys have the
      // attention weight 0, but 0 * NaN is NaN.
      keys.push_back(torch::zeros(shape, tensor_options));
      values.push_back(torch::zeros(shape, tensor_options));
    }
  } catch (c10::Error& error) {
    error.add_context(allocation_text(options, bytes));
    throw;
  }
}

}  // namespace attend
