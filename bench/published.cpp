// Runs attend for the rows of scripts/bench with published models: bench_published FOLDER. The
// protocol is that of bench_contender. peers/published_folder.py writes FOLDER/model and the texts.
#include "attend/models/generation.h"
#include "attend/pretrained/pretrained.h"
#include "serve.h"

#include <torch/utils.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace attend {
namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// A unit loads the model and generates a token.
void load_model(const std::filesystem::path& folder) {
  const auto run = [&] {
    auto pretrained = load_pretrained(folder / "model");
    auto& model = std::get<LanguageModel>(pretrained.model);
    const auto prompt = pretrained.tokenizer.encode("w1 w2 w3").ids;
    const GenerationOptions greedy{.max_new_tokens = 1, .sampling = {.temperature = 0.0}};
    return nlohmann::json{{"tokens", {generate(model, prompt, greedy).tokens}}};
  };
  serve(run, run);
}

/// A unit encodes all lines.
void tokenize(const std::filesystem::path& folder) {
  const auto lines = lines_of(folder / "lines.txt");
  const auto tokenizer = TextTokenizer::load(folder / "model/tokenizer.json");
  const auto run = [&] {
    std::vector<std::vector<int64_t>> ids;
    for (const auto& line : lines) ids.push_back(tokenizer.encode(line).ids);
    return ids;
  };
  serve([&] { return nlohmann::json{{"tokens", run()}}; }, run);
}

/// A unit computes the vectors of all lines.
void embed(const std::filesystem::path& folder) {
  const auto lines = lines_of(folder / "lines.txt");
  auto pretrained = load_pretrained(folder / "model");
  const auto run = [&] { return pretrained.encode(lines); };
  const auto first = [&] {
    const auto numbers = run().flatten();
    const auto* data = numbers.const_data_ptr<float>();
    return nlohmann::json{{"outputs", std::vector<float>(data, data + numbers.numel())}};
  };
  serve(first, run);
}

void run(const std::filesystem::path& folder) {
  nlohmann::json row;
  std::ifstream(folder / "row.json") >> row;
  torch::set_num_threads(row.at("threads").get<int>());
  const std::string kind = row.at("kind");
  if (kind == "load") return load_model(folder);
  if (kind == "tokenize") return tokenize(folder);
  if (kind == "embed") return embed(folder);
  throw std::runtime_error("row.json has the kind '" + kind +
                           "', expected load, tokenize or embed");
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_published FOLDER\n";
    return 2;
  }
  try {
    attend::run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "bench_published: " << error.what() << "\n";
    return 1;
  }
}
