#include "ops/row_products.h"

#include "ops/plain_row_products.h"
#include "support/instruction_sets.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

namespace attend {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr double kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A weight in each of the formats.
struct Weight {
  explicit Weight(const torch::Tensor& matrix)
      : whole(matrix), count(matrix.size(0)), columns(matrix.size(1)) {
    for (int64_t n = 0; n < count; ++n) {
      const auto* row = floats().data + n * floats().stride;
      int8_scales[n] = to_int8(row, columns, int8_elements.data() + n * padded_columns(columns));
      to_int4(row, columns, int4_data.data() + n * int4_row_bytes(columns),
              int4_units.data() + 2 * n);
    }
  }
  FloatRows floats() const { return {whole.const_data_ptr<float>(), whole.stride(0)}; }
  Int8Rows int8() const { return {int8_elements.data(), int8_scales.data()}; }
  Int4Rows int4() const { return {int4_data.data(), int4_units.data()}; }

  torch::Tensor whole;
  int64_t count;
  int64_t columns;
  std::vector<int8_t> int8_elements = std::vector<int8_t>(count * padded_columns(columns));
  std::vector<float> int8_scales = std::vector<float>(count);
  std::vector<uint8_t> int4_data = std::vector<uint8_t>(count * int4_row_bytes(columns));
  std::vector<float> int4_units = std::vector<float>(2 * count);
};

struct RowProducts : InstructionSetTest {};

/// Compares `multiply` with `plain_multiply`. The bound of the difference is that of a sum of
/// float32 numbers: K + 8 roundings of the sum of the absolute values of the products, and K
/// roundings of denormal numbers.
template <typename Input, typename Rows>
void expect_equal_to_plain(const torch::Tensor& x, const Input& input, const Weight& weight,
                           const Rows& rows, const torch::Tensor& bias, RowRange range) {
  const auto y = torch::full({x.size(0), weight.count}, 7, torch::kFloat);
  auto expected = y.clone();
  RowProduct product{.rows = x.size(0),
                     .columns = weight.columns,
                     .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                     .y = y.mutable_data_ptr<float>(),
                     .outputs = weight.count};
  multiply(product, input, rows, range);
  product.y = expected.mutable_data_ptr<float>();
  plain_multiply(product, input, rows, range);
  // A number of int4 is the difference of two numbers that are at most 2 max |w|.
  const auto terms = x.abs().to(torch::kDouble).sum(1, /*keepdim=*/true) *
                     weight.whole.abs().to(torch::kDouble).amax(1);  // (rows, N)
  auto bound = 4 * kEpsilon * static_cast<double>(weight.columns + 8) * terms;
  bound = bound + static_cast<double>(weight.columns) * kSmallest;
  if (bias.defined()) bound = bound + kEpsilon * bias.abs();
  EXPECT_TRUE(((y - expected).abs() <= bound).all().item<bool>())
      << "largest difference " << (y - expected).abs().max().item<float>();
}

void expect_all_equal_to_plain(const torch::Tensor& x, const Weight& weight,
                               const torch::Tensor& bias, RowRange range) {
  const auto* data = x.const_data_ptr<float>();
  const auto integers = to_integers(data, x.size(0), weight.columns);
  expect_equal_to_plain(x, data, weight, weight.floats(), bias, range);
  expect_equal_to_plain(x, integers, weight, weight.int8(), bias, range);
  expect_equal_to_plain(x, integers, weight, weight.int4(), bias, range);
}

TEST_P(RowProducts, EqualThePlainProductsForRandomShapes) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    const auto rows = draw(1, kMaxProductRows);
    const auto columns = draw(1, 700);
    const auto count = draw(1, 20);
    const auto begin = draw(0, count);
    const RowRange range{begin, draw(begin, count)};
    const auto stride = columns + draw(0, 9);
    SCOPED_TRACE(testing::Message() << rows << " rows, weight (" << count << ", " << columns
                                    << "), stride " << stride);
    const Weight weight(torch::randn({count, stride}).slice(1, 0, columns));
    const auto bias = draw(0, 1) == 1 ? torch::randn({count}) : torch::Tensor();
    expect_all_equal_to_plain(torch::randn({rows, columns}), weight, bias, range);
  }
}

TEST_P(RowProducts, AreExactForLargeIntegers) {
  // In int32, the sum of all products would overflow.
  const Weight weight(torch::ones({5, 20000}));
  for (int64_t rows = 1; rows <= kMaxProductRows; ++rows) {
    expect_all_equal_to_plain(torch::full({rows, 20000}, -1.0F), weight, {}, {0, 5});
  }
}

TEST_P(RowProducts, AcceptExtremeNumbers) {
  const auto weight = torch::randn({6, 200});
  for (const float factor : {0.0F, 1e-44F, 1e-31F, 1e-20F, 1e15F}) {
    SCOPED_TRACE(factor);
    expect_all_equal_to_plain(torch::randn({3, 200}) * factor, Weight(weight), {}, {0, 6});
    expect_all_equal_to_plain(torch::randn({3, 200}), Weight(weight * factor), {}, {0, 6});
    expect_all_equal_to_plain(
        torch::randn({3, 200}),
        Weight(torch::rand({6, 200}) * torch::rand({6, 200}).round() * factor), {}, {0, 6});
  }
}

TEST_P(RowProducts, RoundTheInputToMultiplesOfAScale) {
  for (const int64_t columns : {1, 7, 31, 100, 768}) {
    const auto x = torch::randn({3, columns});
    const auto integers = to_integers(x.const_data_ptr<float>(), 3, columns);
    for (int64_t r = 0; r < 3; ++r) {
      EXPECT_FLOAT_EQ(integers.scales.at(r), x[r].abs().max().item<float>() / 32767);
      for (int64_t k = 0; k < columns; ++k) {
        EXPECT_NEAR(element(integers, columns, r, k), x[r][k].item<double>(),
                    0.51 * integers.scales.at(r));
      }
    }
  }
}

TEST_P(RowProducts, GiveNanForRowsThatAreNotFinite) {
  const Weight weight(torch::randn({6, 100}));
  for (const auto k : {0, 50, 99}) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      auto x = torch::randn({3, 100});
      x[1][k] = bad;
      const auto* data = x.const_data_ptr<float>();
      const auto integers = to_integers(data, 3, 100);
      const auto y = torch::empty({3, 3, 6});
      RowProduct product{.rows = 3, .columns = 100, .bias = nullptr, .y = nullptr, .outputs = 6};
      product.y = y[0].mutable_data_ptr<float>();
      multiply(product, integers, weight.int8(), {0, 6});
      product.y = y[1].mutable_data_ptr<float>();
      multiply(product, integers, weight.int4(), {0, 6});
      product.y = y[2].mutable_data_ptr<float>();
      multiply(product, data, weight.floats(), {0, 6});
      EXPECT_TRUE(y.slice(0, 0, 2).select(1, 1).isnan().all().item<bool>());
      EXPECT_TRUE(torch::equal(y[2][1].isnan(), torch::linear(x, weight.whole)[1].isnan()));
      EXPECT_FALSE(y[2][1].isfinite().any().item<bool>());
      for (const auto row : {0, 2}) EXPECT_TRUE(y.select(1, row).isfinite().all().item<bool>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowProducts,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         instruction_set_name);

TEST(Int8Rows, AreTheWeightRoundedToMultiplesOfAScale) {
  const Weight weight(torch::randn({5, 100}));
  for (int64_t n = 0; n < weight.count; ++n) {
    const auto scale = weight.int8_scales.at(n);
    EXPECT_FLOAT_EQ(scale, weight.whole[n].abs().max().item<float>() / 127);
    for (int64_t k = 0; k < weight.columns; ++k) {
      EXPECT_NEAR(element(weight.int8(), weight.columns, n, k), weight.whole[n][k].item<double>(),
                  0.501 * scale);
    }
  }
}

TEST(Int4Rows, AreTheWeightRoundedToTheStepsOfAGroup) {
  // The groups of a row differ in size and in sign.
  const auto size = torch::tensor({1.0, 0.1, 3.0, 0.5}).repeat_interleave(kGroup).to(torch::kFloat);
  const auto shift = torch::tensor({2, 0, 0, -5}).repeat_interleave(kGroup).to(torch::kFloat);
  const Weight weight((torch::randn({5, 4 * kGroup}) * size + shift).slice(1, 0, 100).contiguous());
  for (int64_t n = 0; n < weight.count; ++n) {
    for (int64_t begin = 0; begin < weight.columns; begin += kGroup) {
      const auto group = weight.whole[n].slice(0, begin, std::min(begin + kGroup, weight.columns));
      const auto range = (group.max() - group.min()).item<double>();
      const double scale_unit = weight.int4_units.at(2 * n);
      const double offset_unit = weight.int4_units.at(2 * n + 1);
      // Half a step, whose scale is rounded up, and half the rounding of the offset.
      const auto bound = (range / 15 + scale_unit) / 2 + offset_unit / 2;
      for (int64_t i = 0; i < group.size(0); ++i) {
        EXPECT_NEAR(element(weight.int4(), weight.columns, n, begin + i), group[i].item<double>(),
                    1.001 * bound);
      }
    }
  }
}

TEST(QuantizedRows, AreExactForZerosAndConstants) {
  for (const float value : {0.0F, 1.5F, -3.0F}) {
    const Weight weight(torch::full({2, 100}, value));
    for (const auto k : {0, 40, 99}) {
      EXPECT_NEAR(element(weight.int8(), weight.columns, 1, k), value, 1e-6);
      EXPECT_NEAR(element(weight.int4(), weight.columns, 1, k), value, 1e-6);
    }
  }
}

TEST(QuantizedRows, AreNanForRowsThatAreNotFinite) {
  for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
    auto matrix = torch::randn({3, 100});
    matrix[1][70] = bad;
    const Weight weight(matrix);
    for (const auto n : {0, 1, 2}) {
      EXPECT_EQ(std::isnan(element(weight.int8(), weight.columns, n, 0)), n == 1);
      EXPECT_EQ(std::isnan(element(weight.int4(), weight.columns, n, 0)), n == 1);
    }
  }
}

}  // namespace
}  // namespace attend
