#pragma once

#include <cstddef>
#include <cstdint>

// C interface of the module attend_sentencepiece, a shared library that wraps SentencePiece.
// SentencePiece and LibTorch both export a variable FLAGS_minloglevel with different types, so a
// program that links both corrupts its memory. Therefore, only the module links SentencePiece. It
// is loaded such that, inside the module, SentencePiece's symbols take precedence over those of
// LibTorch. No exceptions or standard library types cross the interface, and each side frees the
// memory that it allocated.
// Only files in src/io include this header.
namespace attend {

/// Callback that receives bytes. `append` is called with `target` as its first argument.
struct BytesSink {
  void* target;
  void (*append)(void* target, const char* bytes, std::size_t size) noexcept;
};

/// Callback that receives token ids. `append` is called with `target` as its first argument.
struct TokensSink {
  void* target;
  void (*append)(void* target, const int* tokens, std::size_t count) noexcept;
};

struct SentencePieceModel;  // defined in the module

/// Functions of the module. A function that returns false or null has written the reason to
/// `error`.
struct SentencePieceModule {
  /// Trains a model with `vocab_size` tokens on a UTF-8 text, and writes the bytes of the model to
  /// `model`.
  bool (*train)(const char* text, std::size_t size, int vocab_size, BytesSink model,
                BytesSink error) noexcept;
  /// Loads a model written by `train`. The returned model must be freed with `close`.
  SentencePieceModel* (*open)(const char* bytes, std::size_t size, BytesSink error) noexcept;
  /// Frees a model.
  void (*close)(SentencePieceModel* model) noexcept;
  /// Returns the number of tokens.
  int (*vocab_size)(const SentencePieceModel* model) noexcept;
  /// Writes the bytes of a token to `bytes`. `token` must be in [0, vocab_size).
  void (*token)(const SentencePieceModel* model, int token, BytesSink bytes) noexcept;
  /// Encodes a UTF-8 text, and writes the token ids to `tokens`.
  bool (*encode)(const SentencePieceModel* model, const char* text, std::size_t size,
                 TokensSink tokens, BytesSink error) noexcept;
};

/// Name and type of the only function exported by the module.
inline constexpr const char* kSentencePieceFunction = "attend_sentencepiece";
using SentencePieceFunction = const SentencePieceModule* (*)() noexcept;

}  // namespace attend
