#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attend {

/// How the values of a weight are stored in a file.
struct WeightLayout {
  enum Kind {
    rows,          ///< as in the module
    transposed,    ///< (in, out) instead of (out, in), as in the Conv1D of GPT-2
    per_head_qkv,  ///< rows (H, 3, D) instead of (3, H, D), as in GPT-NeoX; `number` is H
    unit_offset,   ///< 1 less than in the module, as in the norms of Gemma
    skip_rows,     ///< preceded by `number` rows that no token uses, as the positions of RoBERTa
  };
  Kind kind = rows;
  int64_t number = 0;
};

/// A weight of a model, and the tensors of a file that contain its values.
struct WeightRow {
  struct Part {
    std::string name;            ///< in the file, without the prefix of the architecture
    std::vector<int64_t> shape;  ///< in the file
  };
  std::string name;         ///< in the state dict of the model
  std::vector<Part> parts;  ///< concatenated along dimension 0 after the layout is undone
  WeightLayout layout = {};

  /// Returns the weight, given the tensors of `parts`.
  torch::Tensor join(const std::vector<torch::Tensor>& tensors) const;
  /// Returns the tensors of `parts`, given the weight: the inverse of `join`.
  std::vector<torch::Tensor> split(const torch::Tensor& weight) const;
};

/// Part of a linear layer: a name in the file, and its number of rows.
struct LinearPart {
  std::string name;
  int64_t rows;
};

/// The list of all weights of a model, in the declaration of an architecture.
///
///     WeightRows rows;
///     const auto block = rows.inside("decoder.blocks.0.", "h.0.");
///     block.norm("norm1", "ln_1", 768, /*bias=*/true);
///     block.linear("attention.out", {{"attn.c_proj", 768}}, 768, true,
///     {WeightLayout::transposed});
class WeightRows {
 public:
  WeightRows() : rows_(std::make_shared<std::vector<WeightRow>>()) {}

  /// Returns a list that adds to this one. The names begin with `ours` in the model, and with
  /// `theirs` in the file.
  WeightRows inside(const std::string& ours, const std::string& theirs) const;

  /// Adds the weights (rows, `in`) and biases (rows) of a linear layer.
  void linear(const std::string& ours, const std::vector<LinearPart>& parts, int64_t in, bool bias,
              WeightLayout layout = {}) const;
  /// Adds the weight and the bias (`width`) of a norm.
  void norm(const std::string& ours, const std::string& theirs, int64_t width, bool bias,
            WeightLayout layout = {}) const;
  /// Adds the weight (`count`, `width`) of an embedding.
  void embedding(const std::string& ours, const std::string& theirs, int64_t count, int64_t width,
                 WeightLayout layout = {}) const;

  /// Adds a vector (`width`).
  void vector(const std::string& ours, const std::string& theirs, int64_t width) const;

  const std::vector<WeightRow>& all() const& { return *rows_; }
  const std::vector<WeightRow>& all() && = delete;

 private:
  std::shared_ptr<std::vector<WeightRow>> rows_;
  std::string ours_;
  std::string theirs_;
};

}  // namespace attend
