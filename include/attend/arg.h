#pragma once

#include <type_traits>
#include <utility>

/// Declares an option with a setter and a getter of the same name, as TORCH_ARG does. Unlike with
/// TORCH_ARG, a setter or getter that is called on a temporary returns a value instead of a
/// reference. Therefore, the reference in
/// `const auto& options = LayerScaleOptions(64).init(1e-4);` does not dangle.
///
/// The getter of an option `dropout` is called as follows:
///
///     double p = options.dropout();
#define ATTEND_ARG(T, name)                                                                 \
 public:                                                                                    \
  auto name(const T& new_##name)&->decltype(*this) { /* NOLINT */                           \
    this->name##_ = new_##name;                                                             \
    return *this;                                                                           \
  }                                                                                         \
  auto name(T&& new_##name)&->decltype(*this) { /* NOLINT */                                \
    this->name##_ = std::move(new_##name);                                                  \
    return *this;                                                                           \
  }                                                                                         \
  auto name(const T& new_##name)&&->std::remove_reference_t<decltype(*this)> { /* NOLINT */ \
    this->name##_ = new_##name;                                                             \
    return std::move(*this);                                                                \
  }                                                                                         \
  auto name(T&& new_##name)&&->std::remove_reference_t<decltype(*this)> { /* NOLINT */      \
    this->name##_ = std::move(new_##name);                                                  \
    return std::move(*this);                                                                \
  }                                                                                         \
  const T& name() const& noexcept {                                                         \
    return this->name##_;                                                                   \
  } /* NOLINT */                                                                            \
  T& name()& noexcept {                                                                     \
    return this->name##_;                                                                   \
  } /* NOLINT */                                                                            \
  T name()&& {                                                                              \
    return std::move(this->name##_);                                                        \
  } /* NOLINT */                                                                            \
                                                                                            \
 private:                                                                                   \
  T name##_ /* NOLINT */

/// Like ATTEND_ARG, for an option that is itself an options struct. The setter also accepts a
/// function that changes the nested options. The setter returns the outer options, so calls can be
/// chained.
///
///     TransformerBlockOptions(64, 4)
///         .attention([](auto& attention) { attention.num_kv_heads(2).dropout(0.1); })
///         .residual([](auto& residual) { residual.norm(rms_norm()); });
#define ATTEND_NESTED_ARG(T, name)                                                           \
 public:                                                                                     \
  template <typename Change, std::enable_if_t<std::is_invocable_v<Change, T&>, int> = 0>     \
  auto name(const Change& change)&->decltype(*this) { /* NOLINT */                           \
    change(this->name##_);                                                                   \
    return *this;                                                                            \
  }                                                                                          \
  template <typename Change, std::enable_if_t<std::is_invocable_v<Change, T&>, int> = 0>     \
  auto name(const Change& change)&&->std::remove_reference_t<decltype(*this)> { /* NOLINT */ \
    change(this->name##_);                                                                   \
    return std::move(*this);                                                                 \
  }                                                                                          \
  ATTEND_ARG(T, name)
