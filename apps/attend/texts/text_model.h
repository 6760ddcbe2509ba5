#pragma once

#include "attend/models/generation.h"
#include "attend/models/model.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/run_directory.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// A model that generates text, of a run or of a published folder, and the conversions between its
/// tokens and text.
struct TextModel {
  using Tokens = std::vector<int64_t>;
  /// Returns the text that a generated token adds, without a character whose bytes are incomplete;
  /// at the end (nullopt), the rest.
  using Decoder = std::function<std::string(std::optional<int64_t>)>;

  Model model;  ///< a LanguageModel or a Seq2Seq
  std::function<Tokens(const std::string&)> encode = {};
  /// Returns a decoder of the tokens that follow `previous`.
  std::function<Decoder(const Tokens& previous)> decoder = {};
  Tokens empty_prompt = {};            ///< replaces a prompt without tokens; empty if there is none
  Tokens eos_tokens = {};              ///< tokens that end a text
  SequenceTokens special_tokens = {};  ///< of a Seq2Seq
  std::optional<ChatTemplate> chat_template = {};                    ///< of a chat model
  std::function<Tokens(const RenderedChat& chat)> encode_chat = {};  ///< set if `chat_template` is
  /// Returns true if the generated text is complete; may be empty.
  std::function<bool(const Tokens& prompt_and_generated)> is_complete = {};

  /// True if the generated text continues the prompt, false if it answers the prompt (Seq2Seq).
  bool continues() const { return std::holds_alternative<LanguageModel>(model); }
};

/// Returns a run as a published model: with the tokenizer of the published model that was imported
/// or, for a character, byte or word tokenizer, with an equal one. Throws InputError for a subword
/// tokenizer.
Pretrained as_pretrained(const train::Run& run);

/// Returns the text model of a run. Throws InputError if it is a classifier. `directory`: for the
/// message.
TextModel text_model_of(train::Run run, const std::string& directory);

/// Returns the text model of a published folder. Throws InputError if it is an encoder.
TextModel text_model_of(Pretrained pretrained, const std::string& directory);

}  // namespace attend::app
