#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/io/vocabulary.h"
#include "attend/train/read_labelled_lines.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/text_windows.h"
#include "io/files.h"
#include "ops/in_parallel.h"
#include "train/checksum.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <tuple>

namespace attend::train {
namespace {

/// Texts of files, one after the other. If a text that another follows does not end with a line
/// break, a line break is added, so that its last word and the first of the next stay apart.
struct Texts {
  std::string all;
  std::vector<std::pair<std::string, std::size_t>> ends;  ///< paths, and the ends of their texts
  std::size_t num_bytes = 0;                              ///< without added line breaks
};

Texts read_texts(const std::vector<std::string>& paths, const DataConfig& data) {
  Texts texts;
  for (const auto& path : paths) {
    if (!texts.all.empty() && texts.all.back() != '\n') {
      texts.all += '\n';
      ++texts.ends.back().second;
    }
    auto text = read_text(path, text_limit(data.max_text_bytes), text_encoding(data.tokenizer));
    texts.num_bytes += text.size();
    if (texts.all.empty())
      texts.all = std::move(text);  // no copy of a single text
    else
      texts.all += text;
    texts.ends.emplace_back(path, texts.all.size());
  }
  return texts;
}

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

/// Returns the first complete, non-empty line after the first newline of a text. Skips the part
/// before this newline, since the text may begin in the middle of a line. Returns the whole text if
/// there is no such line.
std::string first_line(const std::string& text) {
  const auto begin = text.find_first_not_of('\n', text.find('\n'));
  const auto end = text.find('\n', begin);
  return end == std::string::npos ? text : text.substr(begin, end + 1 - begin);
}

/// Returns the narrowest integer dtype that contains all token ids.
torch::Dtype token_dtype(const Tokenizer& tokenizer) {
  const auto size = tokenizer.size();
  return size <= 256 ? torch::kByte : size <= 32768 ? torch::kShort : torch::kInt;
}

/// Returns the size of the first piece of a text, about 4 MiB. The next piece begins with a line
/// break or, if there is none near, with a space or another character, so that the tokens of a word
/// or line are not split. The line break CR LF is not split either.
std::size_t first_piece(std::string_view text) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  if (text.size() <= 2 * kPiece) return text.size();
  const auto near = text.substr(0, 2 * kPiece);
  for (const char separator : {'\n', ' '}) {
    if (const auto end = near.find(separator, kPiece); end != near.npos)
      return end - (near[end - 1] == '\r');
  }
  std::size_t end = kPiece;
  // Inside of a code point. A text of bytes may have any number of such bytes.
  while (end < near.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end;
}

/// Returns the tokens of a text (N) in the narrowest integer dtype. The text is encoded in pieces,
/// several of them at a time, since the ids that the tokenizer returns have eight times the size of
/// the text.
torch::Tensor encode_text(const Tokenizer& tokenizer, std::string_view text) {
  const torch::TensorOptions options(token_dtype(tokenizer));
  std::vector<std::size_t> bounds{0};
  while (bounds.back() < text.size())
    bounds.push_back(bounds.back() + first_piece(text.substr(bounds.back())));
  std::vector<torch::Tensor> pieces(bounds.size() - 1);
  std::atomic<bool> failed = false;
  in_parallel(static_cast<int64_t>(pieces.size()), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      try {
        const auto ids = tokenizer.encode(text.substr(bounds[i], bounds[i + 1] - bounds[i]));
        pieces[i] = torch::tensor(ids, options);
      } catch (const InputError&) {
        failed = true;
      }
    }
  });
  // Throws with the position in the whole text of the first token that cannot be encoded.
  for (std::size_t i = 0; failed && i < pieces.size(); ++i) {
    if (!pieces[i].defined()) tokenizer.encode(text.substr(0, bounds[i + 1]));
  }
  return pieces.empty() ? torch::empty({0}, options) : torch::cat(pieces);
}

/// Returns the tokens of texts (N). Errors name the file, the position in it and what to do.
/// `can_change`: true if another tokenizer may be chosen.
torch::Tensor encode_texts(const Tokenizer& tokenizer, const Texts& texts, bool can_change) {
  std::vector<torch::Tensor> tokens;
  std::size_t begin = 0;
  for (const auto& [path, end] : texts.ends) {
    const auto text = std::string_view(texts.all).substr(begin, end - begin);
    const auto encode = [&] { return encode_text(tokenizer, text); };
    tokens.push_back(with_source(path, [&] {
      return changing_unknown_token(
          can_change ? &UnknownTokenError::with_options : &UnknownTokenError::with_fixed_tokenizer,
          encode);
    }));
    begin = end;
  }
  return tokens.size() == 1 ? tokens.front() : torch::cat(tokens);
}

/// Language modelling of text files. The validation data are files of its own or else the last
/// tokens of the texts. It is evaluated in non-overlapping windows. Training sequences start at
/// random positions in the rest of the text. The vocabulary is built from the whole text, but not
/// from a validation file.
class TextTask : public Task {
 public:
  /// Default recipe: four layers of width 128. The model trains on a megabyte of English in minutes
  /// on a CPU.
  static Recipe defaults() {
    Recipe recipe;
    recipe.stack().num_layers = 4;
    recipe.stack().embed_dim = 128;
    recipe.stack().positions = PositionScheme::rotary;
    recipe.training.max_steps = 2000;
    recipe.training.batch_size = 12;
    recipe.training.min_lr_ratio = 0.05;
    recipe.training.warmup_steps = 100;
    recipe.training.eval_every = 500;
    return recipe;
  }

  /// Reads `recipe.text` and `recipe.data.val_text`. Throws InputError if a file is missing, empty
  /// or, unless the tokenizer encodes bytes, not UTF-8, if the tokenizer cannot encode the
  /// validation text, or if training or validation data have fewer than max_seq_len + 1 tokens.
  TextTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : TextTask(recipe, read_texts(files_of(recipe), recipe.data), std::move(tokenizer)) {}

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  Batch training_batch(int64_t size, Sampler& sampler) const override {
    const auto starts = torch::randint(training_.size(0) - context_, {size, 1}, sampler.generator(),
                                       torch::TensorOptions(torch::kLong));
    const auto index = starts + torch::arange(context_);  // (B, T)
    const auto tokens = [&](const auto& at) { return training_.index({at}).to(torch::kLong); };
    return {tokens(index), tokens(index + 1)};
  }
  std::optional<int64_t> num_training_sequences() const override {
    return training_.size(0) / context_;
  }
  std::vector<Batch> validation_batches(int64_t size) const override {
    return text_windows(validation_, context_, size);
  }
  std::string data_checksum() const override { return checksum_; }
  std::vector<DataNote> data_notes() const override { return notes_; }
  std::vector<Example> samples() const override { return {{prompt_, ""}}; }

 private:
  TextTask(const Recipe& recipe, const Texts& texts, std::shared_ptr<const Tokenizer> tokenizer)
      : context_(recipe.max_seq_len()) {
    const bool is_new = tokenizer == nullptr;
    tokenizer_ = tokenizer_for(recipe, texts.all, std::move(tokenizer));
    checksum_ = checksum_text(crc32c(texts.all));
    notes_.push_back(files_note("text", recipe.text, texts.num_bytes));
    training_ = encode_texts(*tokenizer_, texts, is_new);
    const auto& val_text = recipe.data.val_text;
    const bool has_file = !val_text.empty();
    if (has_file) {
      check_are_texts(val_text, recipe);
      const auto validation = read_texts(val_text, recipe.data);
      checksum_ += "-" + checksum_text(crc32c(validation.all));
      notes_.push_back(files_note("val text", val_text, validation.num_bytes));
      validation_ = encode_texts(*tokenizer_, validation, is_new);
    } else {
      const auto tokens = training_;
      const auto fraction = static_cast<double>(tokens.size(0)) * recipe.data.val_fraction;
      const auto end = tokens.size(0) - static_cast<int64_t>(fraction);
      training_ = tokens.slice(0, 0, end);
      validation_ = tokens.slice(0, end);
    }
    const int64_t count = training_.size(0) + validation_.size(0);
    for (const auto& [files, name, part] :
         {std::tuple(recipe.text, "training", training_),
          std::tuple(has_file ? val_text : recipe.text, "validation", validation_)}) {
      if (part.size(0) > context_) continue;
      throw InputError(fmt::format(
          "{}: the {} split has {} of {} tokens, expected more than max_seq_len ({}); change {} or "
          "max_seq_len",
          paths_text(files), name, part.size(0), count, context_,
          has_file ? "the file" : "val_fraction"));
    }
    const auto start = validation_.narrow(0, 0, context_).to(torch::kLong);
    const auto* ids = start.const_data_ptr<int64_t>();
    prompt_ = first_line(tokenizer_->decode({ids, ids + context_}));
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t context_;
  std::string checksum_;
  std::vector<DataNote> notes_;
  torch::Tensor training_;    // (N), see `token_dtype`
  torch::Tensor validation_;  // (M), see `token_dtype`
  std::string prompt_;
};

std::vector<Batch> batches_of_text(const std::filesystem::path& path, const Recipe& recipe,
                                   const Tokenizer& tokenizer, const std::vector<std::string>&,
                                   int64_t size) {
  check_are_texts({path.string()}, recipe);
  const auto tokens =
      encode_texts(tokenizer, read_texts({path.string()}, recipe.data), /*can_change=*/true);
  return with_source(path.string(),
                     [&] { return text_windows(tokens, recipe.max_seq_len(), size); });
}

}  // namespace

std::vector<Batch> text_windows(const torch::Tensor& tokens, int64_t context, int64_t size) {
  if (tokens.size(0) < 2) {
    throw InputError(fmt::format("expected at least two tokens, found {}", tokens.size(0)));
  }
  const int64_t predicted = tokens.size(0) - 1;
  const int64_t whole = predicted / context * context;
  std::vector<Batch> batches;
  for (int64_t begin = 0; begin < predicted;) {
    const int64_t end = begin < whole ? std::min(begin + size * context, whole) : predicted;
    const auto part = tokens.slice(0, begin, end + 1).to(torch::kLong);
    const auto rows = [&](int64_t shift) {  // views, since targets repeat all tokens but one
      const auto row = part.slice(0, shift, shift + end - begin);
      return row.view({-1, std::min(context, end - begin)});  // (B, T)
    };
    batches.push_back({rows(0), rows(1)});
    begin = end;
  }
  return batches;
}

TaskInfo text_task() {
  return {.name = "text",
          .summary = "next character, byte, word or subword of a text",
          .defaults = TextTask::defaults(),
          .make = make<TextTask>,
          .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown"},
          .batches_of_file = batches_of_text};
}

}  // namespace attend::train
