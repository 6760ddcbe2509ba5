// The module attend_sentencepiece; see sentencepiece_module.h.
#include "io/sentencepiece_module.h"

#include "io/sentencepiece_text.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentencepiece::logging {
void SetMinLogLevel(int level);  // exported by the library, but declared in no header
}  // namespace sentencepiece::logging

namespace attend {

struct SentencePieceModel {
  sentencepiece::SentencePieceProcessor processor;
  std::array<int, 256> bytes;  // token id of each byte
  bool encodes_words;          // see `encodes_words_separately`
};

namespace {

using sentencepiece::SentencePieceTrainer;
using sentencepiece::util::Status;
using sentencepiece::util::StatusCode;

/// Disables SentencePiece's logging. Errors are returned as a Status.
void disable_logging() {
  constexpr int kAboveFatal = 4;
  // Once, since it writes a global variable, and several threads may encode.
  [[maybe_unused]] static const bool disabled =
      (sentencepiece::logging::SetMinLogLevel(kAboveFatal), true);
}

void write(BytesSink sink, std::string_view bytes) noexcept {
  sink.append(sink.target, bytes.data(), bytes.size());
}

/// Returns the error message of `status` without the source location at its beginning.
std::string reason(const Status& status) {
  std::string message = status.error_message();
  const auto location = message.find("] ");
  if (location == std::string::npos || location + 2 == message.size()) return message;
  return message.substr(location + 2);
}

/// Calls a function that returns a Status and may throw. On failure, writes the reason to `error`
/// and returns false.
template <typename Function>
bool guarded(BytesSink error, const Function& function) noexcept {
  try {
    disable_logging();
    const Status status = function();
    if (status.ok()) return true;
    write(error, reason(status));
  } catch (const std::exception& exception) {
    write(error, exception.what());
  } catch (...) {
    write(error, "unknown exception");
  }
  return false;
}

/// Iterates over the sentences of a text.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::string_view text) : rest_(text) { Next(); }

  bool done() const override { return sentence_.empty(); }
  const std::string& value() const override { return sentence_; }
  Status status() const override { return {}; }

  void Next() override {
    for (auto reserved = reserved_at_start(rest_); !reserved.empty();
         reserved = reserved_at_start(rest_)) {
      rest_.remove_prefix(reserved.size());
    }
    sentence_ = first_sentence(rest_);
    rest_.remove_prefix(sentence_.size());
  }

 private:
  std::string_view rest_;
  std::string sentence_;
};

bool train(const char* text, std::size_t size, int vocab_size, BytesSink model,
           BytesSink error) noexcept {
  return guarded(error, [&] {
    const bool is_large = size > std::numeric_limits<int32_t>::max();
    Sentences sentences({text, size});
    if (sentences.done()) {
      return Status(StatusCode::kInvalidArgument,
                    "the text is empty or contains nothing but line breaks, "
                    "NUL, U+2581 and U+2585");
    }
    std::string bytes;
    const auto status = SentencePieceTrainer::Train(
        // BPE is ten times as fast as SentencePiece's default (unigram), and encodes texts with
        // fewer tokens.
        {{"model_type", "bpe"},
         {"vocab_size", std::to_string(vocab_size)},
         // These options make the encoding of any text lossless.
         {"byte_fallback", "true"},
         {"normalization_rule_name", "identity"},
         {"remove_extra_whitespaces", "false"},
         {"add_dummy_prefix", "false"},
         // Language models are trained on windows of a text, so they need no begin or end token.
         {"bos_id", "-1"},
         {"eos_id", "-1"},
         {"max_sentence_length", std::to_string(kLongestSentence)},
         {"train_extremely_large_corpus", is_large ? "true" : "false"},
         // With several threads, the order of summation would vary between runs, and the trained
         // models would differ.
         {"num_threads", "1"},
         {"minloglevel", "4"}},
        &sentences, &bytes);
    if (status.ok()) write(model, bytes);
    return status;
  });
}

std::string byte_piece(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

/// SentencePiece's symbol for a space.
constexpr std::string_view kSpace = "\u2581";

/// True if the tokens of a sentence are those of its words, where each space begins a word: no
/// token contains a space after its first character, spaces are neither added nor removed, and the
/// scores of tokens are integers as in byte-pair encoding, so that no sum of them is rounded.
bool encodes_words_separately(const sentencepiece::SentencePieceProcessor& processor) {
  for (int token = 0; token < processor.GetPieceSize(); ++token) {
    const auto& piece = processor.IdToPiece(token);
    const auto score = processor.GetScore(token);
    if (score != std::round(score) || piece.find(kSpace, 1) != piece.npos ||
        piece.find(' ', 1) != piece.npos) {
      return false;
    }
  }
  std::vector<std::string> pieces;
  const bool encoded = processor.Encode("a  a ", &pieces).ok();
  return encoded &&
         std::accumulate(pieces.begin(), pieces.end(), std::string()) == "a\u2581\u2581a\u2581";
}

SentencePieceModel* open(const char* bytes, std::size_t size, BytesSink error) noexcept {
  std::unique_ptr<SentencePieceModel> model;
  const bool opened = guarded(error, [&] {
    model = std::make_unique<SentencePieceModel>();
    auto& processor = model->processor;
    if (auto status = processor.LoadFromSerializedProto({bytes, size}); !status.ok()) return status;
    for (unsigned byte = 0; byte < model->bytes.size(); ++byte) {
      const int token = processor.PieceToId(byte_piece(byte));
      if (!processor.IsByte(token)) {
        return Status(StatusCode::kInvalidArgument, "expected a token for each byte");
      }
      model->bytes[byte] = token;
    }
    model->encodes_words = encodes_words_separately(processor);
    return Status();
  });
  return opened ? model.release() : nullptr;
}

void close(SentencePieceModel* model) noexcept {
  delete model;
}

int vocab_size(const SentencePieceModel* model) noexcept {
  return model->processor.GetPieceSize();
}

void token(const SentencePieceModel* model, int token, BytesSink bytes) noexcept {
  for (unsigned byte = 0; byte < model->bytes.size(); ++byte) {
    if (model->bytes[byte] != token) continue;
    const auto character = static_cast<char>(byte);
    return write(bytes, {&character, 1});
  }
  write(bytes, model->processor.DecodeIds({token}));
}

/// Encodes sentences. Keeps the tokens of each word, since most words of a text occur often.
class Encoder {
 public:
  explicit Encoder(const SentencePieceModel& model) : model_(model) {}

  /// Appends the tokens of a sentence to `ids`. The text of the sentence must outlive the encoder.
  Status append(std::string_view sentence, std::vector<int>& ids) {
    while (!sentence.empty()) {
      const auto end = model_.encodes_words ? sentence.find(' ', 1) : sentence.npos;
      const auto word = sentence.substr(0, end);
      const auto [found, is_new] = words_.try_emplace(word);
      auto& tokens = found->second;
      if (is_new) {
        if (auto status = model_.processor.Encode(word, &tokens); !status.ok()) return status;
      }
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      sentence.remove_prefix(word.size());
    }
    return {};
  }

 private:
  const SentencePieceModel& model_;
  std::unordered_map<std::string_view, std::vector<int>> words_;
};

bool encode(const SentencePieceModel* model, const char* text, std::size_t size, TokensSink tokens,
            BytesSink error) noexcept {
  return guarded(error, [&] {
    std::string_view rest(text, size);
    Encoder encoder(*model);
    std::vector<int> ids;
    while (!rest.empty()) {
      ids.clear();
      auto part = reserved_at_start(rest);
      for (const char byte : part) ids.push_back(model->bytes[static_cast<unsigned char>(byte)]);
      if (part.empty()) {
        part = first_sentence(rest);
        if (auto status = encoder.append(part, ids); !status.ok()) return status;
      }
      tokens.append(tokens.target, ids.data(), ids.size());
      rest.remove_prefix(part.size());
    }
    return Status();
  });
}

constexpr SentencePieceModule kModule{train, open, close, vocab_size, token, encode};

}  // namespace
}  // namespace attend

extern "C" __attribute__((visibility("default"))) const attend::SentencePieceModule*
attend_sentencepiece() noexcept {
  return &attend::kModule;
}
