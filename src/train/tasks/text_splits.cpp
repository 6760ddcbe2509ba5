#include "train/tasks/text_splits.h"

#include "attend/input_error.h"
#include "attend/train/read_table.h"
#include "attend/train/recipe_fields.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace attend::train {
namespace {

/// Throws InputError if one of the files is a table, unless the training text is one too.
void check_are_texts(const std::vector<std::string>& paths, const Recipe& recipe) {
  if (std::ranges::any_of(recipe.text, has_table_extension)) return;
  const auto table = std::ranges::find_if(paths, has_table_extension);
  if (table == paths.end()) return;
  throw InputError(
      fmt::format("{}: found a table, expected a text as in training; a table is the data of "
                  "`task = labelled-lines`; rename the file to read it as a text",
                  *table));
}

void add_notes(const char* name, const std::vector<std::string>& paths, const TextTokens& tokens,
               std::vector<DataNote>& notes) {
  notes.push_back(files_note(name, paths, static_cast<std::uintmax_t>(tokens.num_bytes)));
  if (!tokens.note.empty()) notes.push_back({"tokens", tokens.note});
}

}  // namespace

TextSplits read_text_splits(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                            int64_t min_training, int64_t min_validation, bool masking) {
  const TextUse use{.can_change = tokenizer == nullptr, .masking = masking};
  TextSplits splits;
  auto& [training, validation, checksum, notes] = splits;
  training = tokens_of_texts(files_of(recipe), recipe.data, std::move(tokenizer), use);
  add_notes("text", recipe.text, training, notes);
  checksum = training.checksum;
  const auto& val_text = recipe.data.val_text;
  if (!val_text.empty()) {
    check_are_texts(val_text, recipe);
    validation = tokens_of_texts(val_text, recipe.data, training.tokenizer, use);
    add_notes("val text", val_text, validation, notes);
    checksum += "-" + validation.checksum;
  } else {
    validation = training;
    const auto count = training.ids.size(0);
    const auto end =
        count - static_cast<int64_t>(static_cast<double>(count) * recipe.data.val_fraction);
    training.ids = validation.ids.slice(0, 0, end);
    validation.ids = validation.ids.slice(0, end);
  }
  const bool has_file = !val_text.empty();
  const auto count = training.ids.size(0) + validation.ids.size(0);
  for (const auto& [files, name, part, min_tokens] :
       {std::tuple(recipe.text, "training", training.ids, min_training),
        std::tuple(has_file ? val_text : recipe.text, "validation", validation.ids,
                   min_validation)}) {
    if (part.size(0) >= min_tokens) continue;
    throw InputError(fmt::format(
        "{}: the {} split has {} of {} tokens, expected at least {} for a max_seq_len of {}; "
        "change {} or max_seq_len",
        paths_text(files), name, part.size(0), count, min_tokens, recipe.max_seq_len(),
        has_file ? "the file" : "val_fraction"));
  }
  return splits;
}

TextTokens read_text_of_run(const std::string& path, const Recipe& recipe,
                            const Tokenizer& tokenizer, bool masking) {
  check_are_texts({path}, recipe);
  // The tokenizer is the caller's.
  const std::shared_ptr<const Tokenizer> unowned(std::shared_ptr<void>(), &tokenizer);
  return tokens_of_texts({path}, recipe.data, unowned, {.can_change = true, .masking = masking});
}

}  // namespace attend::train
