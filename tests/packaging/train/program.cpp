// Calls what each library that attend::train links is used for, and tokenizers; trains as README.md
// shows it.
#include <attend/io/tokenizers.h>
#include <attend/train/read_labelled_lines.h>
#include <attend/train/training_run.h>

#include <fstream>
#include <iostream>

bool trains() {
  auto recipe = attend::train::find_task("sort").defaults;
  recipe.training.max_steps = 2;
  auto run = attend::train::RecipeRun::begin("runs/sort", recipe, /*overwrite=*/true);
  const auto outcome = run.train();
  run.finish(outcome);
  return outcome.trainer_state.best->loss > 0.0;
}

int main() {
  // The program has its own std::cout then, which a module must not take for another one.
  std::cout << "subwords, tables and recipes\n";
  using namespace attend;
  using namespace attend::train;
  std::ofstream("table.csv") << "text,label\none,a\ntwo,b\n";
  const auto lines = read_labelled_lines("table.csv");
  const auto tokenizer = make_tokenizer(TokenizerKind::subword, "one two one two", 265);
  const bool kept = tokenizer->decode(tokenizer->encode(lines.texts[1])) == "two";
  const bool written = to_toml(find_task("senses").defaults).find("senses") != std::string::npos;
  return trains() && kept && written ? 0 : 1;
}
