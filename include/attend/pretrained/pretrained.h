#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "attend/tokenizers/chat_template.h"
#include "attend/tokenizers/text_tokenizer.h"

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Options of `load_pretrained`.
struct PretrainedOptions {
  /// Dtype of the weights. By default the dtype in `config.json` or, if there is none or it is
  /// "auto", the dtype of the token embedding in the file.
  std::optional<torch::ScalarType> dtype = std::nullopt;
  torch::Device device = torch::kCPU;  ///< device of the weights
};

/// Options of `Pretrained::encode`.
struct EncodeTextsOptions {
  int64_t batch_size = 32;  ///< maximum number of texts in a forward pass
  /// Called after each forward pass with the number of texts encoded so far.
  std::function<void(std::size_t)> on_progress = {};
};

/// A published model with its tokenizer.
///
///     auto encoder = attend::load_pretrained("all-MiniLM-L6-v2");
///     auto vectors = encoder.encode({"A cat sits.", "A kitten rests."});  // (2, 384)
///     auto similarity = vectors[0].dot(vectors[1]);
struct ATTEND_API Pretrained {
  Model model;                            ///< in eval mode
  TextTokenizer tokenizer;                ///< content of `tokenizer.json`
  std::string model_type = {};            ///< key of `config.json`, such as "bert"
  std::vector<std::string> classes = {};  ///< names of the classes of a classifier
  std::vector<int64_t> eos_tokens = {};   ///< tokens that end a generated text
  /// First token of the target of a `Seq2Seq`.
  std::optional<int64_t> decoder_start_token = std::nullopt;
  std::string prompt = {};  ///< put before each text of an encoder of texts
  bool lowercase = false;   ///< lowercase the texts, with the rules of Python
  /// Template of conversations; not set if a language model has none. If it cannot be parsed,
  /// `warnings` says why.
  std::optional<ChatTemplate> chat_template = std::nullopt;
  std::vector<std::string> warnings = {};  ///< properties of the files that may be unexpected
  /// Folder of `config.json`; that of the base model if an adapter was loaded, and empty for a
  /// model that was not loaded.
  std::filesystem::path folder = {};

  /// Returns the tokens of a text. Of an encoder of texts, as sentence-transformers computes them:
  /// `prompt` is put before the text, and whitespace at both ends is removed. Throws InputError if
  /// the text is not valid UTF-8, or contains a token that is not in the vocabulary of the model
  /// or, for a RoBERTa, the padding token, which has no position.
  std::vector<int64_t> tokenize(const std::string& text) const;
  /// Returns the tokens of a conversation that `chat_template` has rendered, without adding special
  /// tokens. Throws InputError if a token is not in the vocabulary of the model.
  std::vector<int64_t> tokenize(const RenderedChat& chat) const;

  /// Returns the vectors (N, E) of texts, on the CPU, in float32. Texts of similar length are in
  /// the same batch. A text with more tokens than the model's maximum is truncated. Throws
  /// InputError unless the model is an encoder of texts, that is, a `SequenceClassifier`; of a
  /// classifier, returns the vectors from which the classes are computed. Also throws InputError if
  /// `tokenize` does; the message contains the index of the text.
  torch::Tensor encode(const std::vector<std::string>& texts,
                       const EncodeTextsOptions& options = {});
};

/// Loads a model from a folder as published on Hugging Face: `config.json`, `tokenizer.json`, and
/// `model.safetensors` or the files of `model.safetensors.index.json`. Reads one tensor at a time.
/// Safe for untrusted folders. A folder with the adapter of PEFT (`adapter_config.json`) is loaded
/// with the base model that it names, see `load_peft_adapter`.
///
/// An encoder pools its token vectors as the files of sentence-transformers in the folder say. If
/// there are none, it uses the mean over the tokens.
///
/// Throws InputError if a file is missing or malformed, if the architecture or a key of
/// `config.json` is not supported, or if names or shapes of the weights differ from those of the
/// architecture. The message names the file, and the values found and expected. Throws
/// c10::ValueError if the option `dtype` is not float32, float64, float16 or bfloat16.
///
///     auto gpt2 = attend::load_pretrained("gpt2");
///     auto& model = std::get<attend::LanguageModel>(gpt2.model);
ATTEND_API Pretrained load_pretrained(const std::filesystem::path& folder,
                                      const PretrainedOptions& options = {});

/// Returns the dtype in which `load_pretrained` loads a folder without the option `dtype`. Throws
/// InputError in the same cases.
ATTEND_API torch::ScalarType pretrained_dtype(const std::filesystem::path& folder);

/// Options of `save_pretrained`.
struct SavePretrainedOptions {
  /// Dtype of the weights in the file. By default that of the token embedding.
  std::optional<torch::ScalarType> dtype = std::nullopt;
};

/// Writes a folder that `load_pretrained` loads and, in Python, `AutoModelForCausalLM` or the class
/// in `config.json`, with the same outputs: `config.json`, `model.safetensors`, `tokenizer.json`,
/// `tokenizer_config.json`, `chat_template.jinja` if there is a chat template and, for an encoder
/// of texts, the files of sentence-transformers. `model_type` selects the architecture; if it is
/// empty, the first whose `config.json` can contain all options of the model. Not written are the
/// parts that `Pretrained` does not use, such as the pooler of a BertModel.
///
/// Throws InputError if no architecture has the options of the model (the message names those that
/// differ from the nearest); if weights differ that the architecture shares, such as the two
/// embeddings of a T5; or if `folder` exists and is not an empty folder. Throws c10::ValueError if
/// the option `dtype` is not float32, float64, float16 or bfloat16. If this function throws,
/// `folder` is unchanged.
///
///     auto gpt2 = attend::load_pretrained("gpt2");
///     attend::save_pretrained(gpt2, "my-gpt2");
ATTEND_API void save_pretrained(const Pretrained& pretrained, const std::filesystem::path& folder,
                                const SavePretrainedOptions& options = {});

/// Returns the vectors (N, E) of texts that are given as tokens, see `Pretrained::encode`. A text
/// without tokens has the vector 0. Throws c10::ValueError if the model is in training mode.
ATTEND_API torch::Tensor encode_tokens(SequenceClassifier& model,
                                       const std::vector<std::vector<int64_t>>& texts,
                                       const EncodeTextsOptions& options = {});

/// True if `folder` contains a `config.json` of a published model, or an `adapter_config.json`.
ATTEND_API bool is_pretrained(const std::filesystem::path& folder);

}  // namespace attend
