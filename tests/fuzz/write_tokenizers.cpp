// Writes the small tokenizers of the tests as seeds: write_tokenizers FOLDER
#include "tokenizers/small_tokenizers.h"

#include <filesystem>
#include <fstream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  int number = 0;
  for (const auto& tokenizer : attend::small_tokenizers()) {
    std::ofstream file(std::filesystem::path(arguments[1]) / std::to_string(number++));
    file << tokenizer.dump();
    if (!file.flush()) return 1;
  }
}
