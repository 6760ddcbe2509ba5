#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// How the numbers of a matrix are computed from those of other matrices of an explanation.
/// apps/page/README.md lists the operations.
struct Origin {
  std::string operation = {};                ///< empty: the numbers are given
  std::vector<torch::Tensor> operands = {};  ///< `values` of other matrices, the same tensors
  std::optional<double> number = {};         ///< of the operation, such as a divisor
  std::optional<double> shift = {};          ///< subtracted from logits before exp
  std::string name = {};                     ///< of an activation
};

/// A matrix with labels of its rows and columns.
struct LabelledMatrix {
  std::string name;      ///< symbol, such as "Q"
  torch::Tensor values;  ///< (R, C), on the CPU
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::string column = {};  ///< column to show if not all fit in a line; may be empty
  bool by_token = false;    ///< the rows are the tokens, so that the row of a token is highlighted
  bool between_tokens = false;  ///< the columns are the tokens too: scores or attention weights
  bool comparison = false;      ///< the two columns are numbers before and after a change
  Origin origin = {};
};

/// A step of a computation, as `attend explain` shows it.
struct ExplanationStep {
  std::string title;
  std::string formula = {};      ///< in symbols, such as "S = Q K^T"
  std::string description = {};  ///< the formula in words
  std::vector<LabelledMatrix> matrices =
      {};                        ///< the operands that are new in this step, and the result
  std::string calculation = {};  ///< one number of the result, worked out; may be empty
  std::string conclusion = {};   ///< may be empty
};

/// A computation in steps. One token is followed through all steps.
struct Explanation {
  std::string title;
  std::string token;  ///< label of the row to highlight
  int decimals = 4;   ///< number of decimals of each number
  std::vector<ExplanationStep> steps = {};
  int64_t layer = 0;  ///< of a run, from 1; 0 = an example
  int64_t head = 0;   ///< of a run, from 1; 0 = an example
};

/// A projection of token vectors: x W + b.
struct Projection {
  torch::Tensor weight;     ///< (E, D)
  torch::Tensor bias = {};  ///< (D), or undefined
};

/// Appends steps to an explanation whose matrices have one row for each token.
class TokenSteps {
 public:
  /// Follows the token number `row`.
  TokenSteps(std::vector<std::string> tokens, int64_t row, Explanation& explanation)
      : tokens_(std::move(tokens)), row_(row), explanation_(explanation) {}

  /// Appends `step`. A prefix is put in front of the title, followed by a colon.
  void add(ExplanationStep step, const std::string& prefix = "");
  /// Returns a matrix (T, N). The columns are called PREFIX1, PREFIX2, ...; by default, the prefix
  /// is `name`.
  LabelledMatrix by_token(const std::string& name, const torch::Tensor& values, Origin origin = {},
                          const std::string& prefix = "") const;

  const std::vector<std::string>& tokens() const { return tokens_; }
  int64_t row() const { return row_; }  ///< of the token that is followed
  const std::string& token() const {    ///< label of the token that is followed
    return tokens_[static_cast<std::size_t>(row_)];
  }

  /// Returns the number with the decimals of the explanation.
  std::string text(double number) const;
  /// Returns the first number of the token that is followed, in a matrix (T, N).
  std::string first(const torch::Tensor& values) const;
  /// Returns the sum of products in which `a` and `b` (N) are multiplied element by element. Long
  /// sums are shortened.
  std::string products(const torch::Tensor& a, const torch::Tensor& b) const;
  /// Returns how the first number of x W + b is computed for a vector x (E).
  std::string linear(const torch::Tensor& x, const Projection& projection) const;
  /// Returns how the number `index` of the softmax of `logits` (N) is computed.
  std::string softmax(const torch::Tensor& logits, int64_t index) const;

 private:
  std::vector<std::string> tokens_;
  int64_t row_;
  Explanation& explanation_;
};

/// Returns the matrices of `result` = x W + b: W_SUFFIX, b_SUFFIX if there is a bias, and the
/// result with its origin. `from`: prefix of the names of the rows of W.
std::vector<LabelledMatrix> linear_matrices(const torch::Tensor& x, const Projection& projection,
                                            const std::string& suffix, const std::string& from,
                                            LabelledMatrix result);

/// Returns the number that is subtracted from logits (N) before exp, which would otherwise have too
/// many digits: the largest one if it is large, otherwise 0.
double softmax_shift(const torch::Tensor& logits);

/// Returns the matrix (1, N) of a vector (N), such as a bias. Its row has the first letter of the
/// name.
LabelledMatrix row_matrix(const std::string& name, const torch::Tensor& vector,
                          const std::string& prefix);

/// Returns "PREFIX1", "PREFIX2", ... as labels of `count` columns.
std::vector<std::string> numbered(const std::string& prefix, int64_t count);

/// Throws InputError with the name of `flag` unless `number` is from 1 to `count`.
void check_range(const char* flag, int64_t number, int64_t count);

/// Returns the number that a text of 1 to 9 decimal digits contains; std::nullopt for another text.
std::optional<int64_t> number_in(const std::string& text);

/// Returns the index of a token, which is given by its label or by its number, counted from 1.
/// Throws InputError with the name of `flag` if there is no such token.
int64_t row_of(const char* flag, const std::vector<std::string>& labels, const std::string& token);

}  // namespace attend::app
