// Runs attend for the rows of scripts/bench with published models: bench_published FOLDER. The
// protocol is that of bench_contender. peers/published_folder.py writes FOLDER/model and the texts.
#include "attend/io/safetensors.h"
#include "attend/models/generation.h"
#include "attend/pretrained/pretrained.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/task.h"
#include "serve.h"

#include <torch/utils.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
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

/// A unit tokenizes a text to a file, as training on a text larger than memory does.
void tokenize_to_file(const std::filesystem::path& folder) {
  auto recipe = train::find_task("text").defaults;
  recipe.text = {folder / "text.txt"};
  recipe.data.tokenizer = TokenizerKind::published;
  recipe.data.token_dir = folder / "tokens";
  recipe.data.max_text_bytes = 1;
  auto text_tokenizer = TextTokenizer::load(folder / "model/tokenizer.json");
  const PublishedModel model{.vocab_size = text_tokenizer.vocab_size()};
  const auto tokenizer = std::make_shared<PublishedTokenizer>(std::move(text_tokenizer), model);
  const auto run = [=] {
    std::filesystem::remove_all(recipe.data.token_dir);
    train::make_task(recipe, tokenizer);
  };
  const auto first = [&] {
    run();
    for (const auto& file : std::filesystem::directory_iterator(recipe.data.token_dir)) {
      if (file.path().extension() != ".safetensors") continue;
      const auto ids = load_safetensors(file.path()).tensors.at("tokens").to(torch::kLong);
      const auto* begin = ids.const_data_ptr<int64_t>();
      return nlohmann::json{{"tokens", {std::vector(begin, begin + ids.numel())}}};
    }
    throw std::runtime_error("no token file was written");
  };
  serve(first, run);
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
  if (kind == "tokenize_to_file") return tokenize_to_file(folder);
  if (kind == "embed") return embed(folder);
  throw std::runtime_error("row.json has the kind '" + kind +
                           "', expected load, tokenize, tokenize_to_file or embed");
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
