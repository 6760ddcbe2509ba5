#pragma once

#include <cstddef>
#include <cstdint>

// SentencePiece behind a C interface. Its library and LibTorch's each export a variable
// FLAGS_minloglevel, of other types, so a program that links both corrupts its memory. The module
// alone links SentencePiece, and is opened so that it sees its own symbols first. No exception, no
// memory to free and no type of the standard library crosses over.
namespace attend {

/// Where a function of the module puts bytes: `append` is called with `target`.
struct BytesSink {
  void* target;
  void (*append)(void* target, const char* bytes, std::size_t size) noexcept;
};

/// Where it puts the numbers of tokens.
struct TokensSink {
  void* target;
  void (*append)(void* target, const int* tokens, std::size_t count) noexcept;
};

struct SentencePieceModel;  // the module's own

/// What the module does. Where a function returns false or null, `error` got the reason.
struct SentencePieceModule {
  /// Learns a model of `vocabulary` tokens from a UTF-8 text.
  bool (*train)(const char* text, std::size_t size, int vocabulary, BytesSink model,
                BytesSink error) noexcept;
  /// Loads what `train` gave; free it by `close`.
  SentencePieceModel* (*open)(const char* bytes, std::size_t size, BytesSink error) noexcept;
  void (*close)(SentencePieceModel* model) noexcept;
  int (*vocabulary)(const SentencePieceModel* model) noexcept;
  /// The bytes that a token below `vocabulary` stands for.
  void (*token)(const SentencePieceModel* model, int token, BytesSink bytes) noexcept;
  /// The tokens of a UTF-8 text.
  bool (*encode)(const SentencePieceModel* model, const char* text, std::size_t size,
                 TokensSink tokens, BytesSink error) noexcept;
};

/// The one function that the module exports, by its name and its type.
inline constexpr const char* kSentencePieceFunction = "attend_sentencepiece";
using SentencePieceFunction = const SentencePieceModule* (*)() noexcept;

}  // namespace attend
