#include "train/process_memory.h"

#include <sys/resource.h>

namespace attend::train {

int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // ru_maxrss is in KiB on Linux
}

}  // namespace attend::train
