// One of the processes of a launch: sums random numbers with the others, and writes the sums to the
// file FILE. all_reduce_test.py starts it and computes the same sums in Python.
#include "attend/distributed/init.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <fstream>

int main(int /*argc*/, char** argv) {
  const auto processes = attend::distributed::init();
  std::ofstream file(argv[1], std::ios::binary);
  torch::manual_seed(processes->rank());
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    for (const int64_t count : {1, 1000, 100'003}) {
      auto numbers = torch::randn({count}, type);
      processes->all_reduce(numbers);
      file.write(static_cast<const char*>(numbers.const_data_ptr()),
                 static_cast<std::streamsize>(numbers.nbytes()));
    }
  }
  return file.flush() ? 0 : 1;
}
