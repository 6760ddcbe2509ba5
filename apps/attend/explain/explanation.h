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

/// Scores of this size are reduced by the largest one before exp, whose result would have too many
/// digits.
inline constexpr double kLargeLogit = 20.0;

/// A computation in steps. One token is followed through all steps.
struct Explanation {
  std::string title;
  std::string token;  ///< label of the row to highlight
  int decimals = 4;   ///< number of decimals of each number
  std::vector<ExplanationStep> steps = {};
  int64_t layer = 0;  ///< of a run, from 1; 0 = an example
  int64_t head = 0;   ///< of a run, from 1; 0 = an example
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
  /// Returns how the number `index` of the softmax of `logits` (N) is computed.
  std::string softmax(const torch::Tensor& logits, int64_t index) const;

 private:
  std::vector<std::string> tokens_;
  int64_t row_;
  Explanation& explanation_;
};

/// A projection of token vectors: x W + b.
struct Projection {
  torch::Tensor weight;     ///< (E, D)
  torch::Tensor bias = {};  ///< (D), or undefined
};

/// Queries, keys and values of a head.
struct HeadVectors {
  torch::Tensor queries;  ///< Q (T, D)
  torch::Tensor keys;     ///< K (S, D)
  torch::Tensor values;   ///< V (S, D)
};

/// An attention to explain.
struct AttentionExample {
  std::vector<std::string> tokens;       ///< T different labels, of the queries
  torch::Tensor inputs = {};             ///< X (T, E); undefined if Q, K and V are given
  std::string input = "X";               ///< symbol of `inputs`
  torch::Tensor memory = {};             ///< M (S, E), the input of K and V in cross-attention;
                                         ///< undefined in self-attention, where it is `inputs`
  std::optional<Projection> query = {};  ///< Q = X; or X W_Q + b_Q if set
  std::optional<Projection> key = {};    ///< K, likewise
  std::optional<Projection> value = {};  ///< V, likewise
  torch::Tensor queries = {};            ///< Q (T, D), if there are no inputs
  torch::Tensor keys = {};               ///< K (T, D), if there are no inputs
  torch::Tensor values = {};             ///< V (T, D), if there are no inputs
  std::optional<double> divisor = {};    ///< the scores are divided by this number; not if unset
  std::string divisor_text = {};         ///< such as "sqrt(2)"
  torch::Tensor bias = {};               ///< (T, T), added to the scores after the scaling
  double soft_cap = 0.0;                 ///< as in `ScoreOptions`; 0 = none
  torch::Tensor allowed = {};            ///< bool (T, T): true = may attend; undefined = all true
  torch::Tensor weights = {};            ///< A (T, T), if the head has an attention sink; otherwise
                                         ///< the softmax of the scores
  std::string prefix = {};               ///< beginning of the titles of the steps
  std::vector<std::string> sources = {};  ///< S labels of the keys in cross-attention, where T keys
                                          ///< become S; empty in self-attention
};

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

/// Appends the steps of the projections. The worked numbers are those of the token number `row` or,
/// of a memory, of its first token.
HeadVectors add_projection_steps(const AttentionExample& example, int64_t row,
                                 Explanation& explanation);

/// Appends the steps that follow the projections: scores, scaling, soft cap, bias, mask, softmax
/// and weighted sum. The worked numbers are those of the token number `row`. Returns the output (T,
/// D).
torch::Tensor add_score_steps(const AttentionExample& example, const HeadVectors& vectors,
                              int64_t row, Explanation& explanation);

/// Appends the steps of an attention: inputs, projections and scores. Returns the output (T, D).
torch::Tensor add_attention_steps(const AttentionExample& example, int64_t row,
                                  Explanation& explanation);

}  // namespace attend::app
