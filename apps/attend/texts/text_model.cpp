#include "texts/text_model.h"

#include "attend/input_error.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/answer.h"
#include "texts/prompt.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace attend::app {
namespace {

/// Throws InputError if the model is a classifier. `alternative`: a command that uses one.
void check_generates(const Model& model, const std::string& directory, const char* alternative) {
  if (!std::holds_alternative<SequenceClassifier>(model)) return;
  throw InputError(fmt::format(
      "{0}: the model is a sequence_classifier, which cannot generate text; use attend {1} {0}",
      directory, alternative));
}

/// Returns the token of a line break; empty if the vocabulary has none. A text can begin after a
/// line break. `decode` returns the text of a token.
template <typename Decode>
TextModel::Tokens line_break(int64_t vocab_size, const Decode& decode) {
  for (int64_t id = 0; id < vocab_size; ++id) {
    if (decode(id) == "\n") return {id};
  }
  return {};
}

/// Decodes each token together with the previous token: otherwise, the text would lack the space
/// between two words.
TextModel::Decoder decoder_of(const std::shared_ptr<train::Run>& run,
                              std::optional<int64_t> previous) {
  return [run, previous](std::optional<int64_t> token) mutable -> std::string {
    if (!token) return "";
    const auto& tokenizer = *run->tokenizer;
    const auto text =
        previous
            ? tokenizer.decode({*previous, *token}).substr(tokenizer.decode({*previous}).size())
            : tokenizer.decode({*token});
    previous = token;
    return text;
  };
}

}  // namespace

Pretrained as_pretrained(const train::Run& run) {
  if (const auto* tokenizer = dynamic_cast<const PublishedTokenizer*>(run.tokenizer.get())) {
    return {.model = run.model,
            .tokenizer = tokenizer->text_tokenizer(),
            .model_type = tokenizer->model().model_type,
            .classes = run.classes,
            .eos_tokens = tokenizer->model().eos_tokens,
            .chat_template = tokenizer->model().chat_template};
  }
  Pretrained pretrained{
      .model = run.model, .tokenizer = to_text_tokenizer(*run.tokenizer), .classes = run.classes};
  const auto& task = train::find_task(run.recipe.task);
  if (*task.eos_token != '\0') pretrained.eos_tokens = run.tokenizer->encode(task.eos_token);
  return pretrained;
}

TextModel text_model_of(train::Run loaded, const std::string& directory) {
  check_generates(loaded.model, directory, "predict");
  if (loaded.recipe.data.tokenizer == TokenizerKind::published) {
    auto text = text_model_of(as_pretrained(loaded), directory);
    text.encode = [encode = text.encode, data = loaded.recipe.data](const std::string& prompt) {
      return encode(train::with_line_breaks(prompt, data));
    };
    return text;
  }
  const auto run = std::make_shared<train::Run>(std::move(loaded));
  const auto& task = train::find_task(run->recipe.task);
  TextModel text{.model = run->model};
  const bool continues = text.continues();
  text.encode = [run](const std::string& prompt) {
    return with_options_of_task(run->recipe.task, [&] {
      return run->tokenizer->encode(train::with_line_breaks(prompt, run->recipe.data));
    });
  };
  text.decoder = [run, continues](const TextModel::Tokens& previous) {
    return decoder_of(run, continues ? std::optional(previous.back()) : std::nullopt);
  };
  if (continues) {
    text.empty_prompt = line_break(run->tokenizer->size(),
                                   [&](int64_t id) { return run->tokenizer->decode({id}); });
  }
  if (!continues) text.special_tokens = train::answer_tokens(*run->tokenizer);
  if (*task.eos_token != '\0') text.eos_tokens = run->tokenizer->encode(task.eos_token);
  if (task.ends_with_answer != nullptr) {
    text.is_complete = [run, &task](const TextModel::Tokens& tokens) {
      return task.ends_with_answer(run->tokenizer->decode(tokens));
    };
  }
  return text;
}

TextModel text_model_of(Pretrained pretrained, const std::string& directory) {
  check_generates(pretrained.model, directory, "embed");
  const auto shared = std::make_shared<Pretrained>(std::move(pretrained));
  TextModel text{.model = shared->model};
  const bool continues = text.continues();
  text.encode = [shared](const std::string& prompt) { return shared->tokenize(prompt); };
  text.decoder = [shared, continues](const TextModel::Tokens& previous) {
    const auto decoder = std::make_shared<StreamingDecoder>(shared->tokenizer);
    if (continues) {
      for (const auto token : previous) decoder->step(token);
    }
    return [decoder](std::optional<int64_t> token) {
      return token ? decoder->step(*token) : decoder->finish();
    };
  };
  text.eos_tokens = shared->eos_tokens;
  text.chat_template = shared->chat_template;
  text.encode_chat = [shared](const RenderedChat& chat) { return shared->tokenize(chat); };
  if (continues && !text.eos_tokens.empty()) {
    text.empty_prompt = {text.eos_tokens.front()};
  } else if (continues) {  // such as a run that was exported
    const auto& tokenizer = shared->tokenizer;
    text.empty_prompt = line_break(tokenizer.vocab_size(), [&](int64_t id) {
      return tokenizer.decode(TextModel::Tokens{id});
    });
  }
  text.special_tokens = {.bos_token = shared->decoder_start_token.value_or(0),
                         .eos_token = text.eos_tokens.empty() ? -1 : text.eos_tokens.front()};
  return text;
}

}  // namespace attend::app
