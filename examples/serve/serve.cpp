// Continues a sequence of numbers with the TorchScript file of train_and_export. Needs only
// LibTorch. Usage: serve MODEL.pt NUMBER...
#include <torch/script.h>

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: serve MODEL.pt NUMBER...\n";
    return 2;
  }
  std::vector<int64_t> numbers;
  for (int i = 2; i < argc; ++i) numbers.push_back(std::stoll(argv[i]));
  auto model = torch::jit::load(argv[1]);
  const c10::InferenceMode inference;
  const auto prompt = torch::tensor(numbers).unsqueeze(0);  // (1, T)
  const int64_t count = 5;
  const double temperature = 0.0;  // greedy
  const auto next =
      model.get_method("generate")({prompt, count, temperature}).toTensor();  // (1, 5)
  for (int64_t i = 0; i < count; ++i) std::cout << next[0][i].item<int64_t>() << " ";
  std::cout << "\n";
}
