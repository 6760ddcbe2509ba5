#include "attend/enum_names.h"

#include "attend/io/vocabulary.h"
#include "attend/nn/token_embedding.h"
#include "attend/nn/transformer_block.h"
#include "attend/ops/activation.h"
#include "attend/train/recipe.h"

#include <gtest/gtest.h>

#include <set>

namespace attend {
namespace {

/// Checks that each enumerator has its own name. `last` is the last enumerator. If one of the
/// earlier names is missing, or if there is an extra name among them, the name of `last` is not
/// `name_of_last`.
template <typename E>
void expect_names_of(E last, std::string_view name_of_last) {
  const auto& names = EnumNames<E>::names;
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last) + 1);
  EXPECT_EQ(to_string(last), name_of_last);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size()) << "duplicate name";
  for (const auto name : names) {
    const auto value = from_string<E>(name);
    ASSERT_TRUE(value) << name;
    EXPECT_EQ(to_string(*value), name);
  }
  EXPECT_FALSE(from_string<E>("no such name"));
  EXPECT_FALSE(from_string<E>(""));
}

TEST(EnumNames, EveryEnumeratorHasAName) {
  expect_names_of(Activation::swiglu, "swiglu");
  expect_names_of(NormOrder::parallel_separate_norms, "parallel_separate_norms");
  expect_names_of(PositionEmbedding::sinusoidal, "sinusoidal");
  expect_names_of(TokenizerKind::published, "published");
  expect_names_of(train::OptimizerKind::muon, "muon");
  expect_names_of(train::ScheduleKind::wsd, "wsd");
}

}  // namespace
}  // namespace attend
