// Uses a subword tokenizer and each package that attend::train links, and trains as in
// docs/training.md. Then starts readme_program twice. At the second start, its training run is
// already finished.
#include <attend/io/tokenizers.h>
#include <attend/train/read_table.h>
#include <attend/train/training_run.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

bool trains() {
  auto recipe = attend::train::find_task("sort").defaults;
  recipe.training.max_steps = 2;
  auto run = attend::train::make_training_run("runs/sort", recipe,
                                              {.mode = attend::train::RunMode::overwrite});
  const auto result = run.train();
  run.finish(result);
  return result.state.best->loss > 0.0;
}

bool readme_program_runs() {
  std::filesystem::remove_all("runs/images");
  return std::system("./readme_program") == 0 &&
         std::filesystem::exists("runs/images/summary.json") &&
         std::system("./readme_program") == 0;
}

int main() {
  // A program that uses std::cout may contain a copy of this variable. The SentencePiece module,
  // which brings its own standard library, must work nevertheless.
  std::cout << "subwords, tables and recipes\n";
  using namespace attend;
  using namespace attend::train;
  std::ofstream("table.csv") << "text,label\none,a\ntwo,b\n";
  const auto table = read_table("table.csv", {{.name = "text"}, {.name = "label"}});
  const auto tokenizer = make_tokenizer(TokenizerKind::subword, "one two one two", 265);
  const bool round_trip = tokenizer->decode(tokenizer->encode(table.columns[0][1])) == "two";
  const bool written = to_toml(find_task("senses").defaults).find("senses") != std::string::npos;
  return trains() && readme_program_runs() && round_trip && written ? 0 : 1;
}
