#include "export/copy_before_write.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

namespace attend {
namespace {

TEST(CopyBeforeWrite, CopiesOnlyTensorsThatAreWritten) {
  const auto read = torch::ones({3});
  const auto written = torch::arange(6.0).view({2, 3});
  const auto in_list = torch::zeros({2});
  const CopyBeforeWrite guard({read, written, in_list});
  EXPECT_TRUE((read + written).equal(written + 1));
  for (const auto& [tensor, values] : guard.kept()) EXPECT_TRUE(values.is_alias_of(tensor));
  written.select(1, 0).mul_(2);  // a view
  torch::_foreach_add_({in_list}, 1);
  written.add_(1);
  EXPECT_TRUE(guard.kept()[0].values.is_alias_of(read));
  EXPECT_TRUE(guard.kept()[1].values.equal(torch::arange(6.0).view({2, 3})));
  EXPECT_TRUE(guard.kept()[2].values.equal(torch::zeros({2})));
}

TEST(CopyBeforeWrite, KeepsTheValuesOfParametersThatAreResizedOrReplaced) {
  torch::nn::Linear layer(2, 2);
  const auto weight = layer->weight.detach().clone();
  const auto bias = layer->bias.detach().clone();
  const CopyBeforeWrite guard({layer->weight, layer->bias});
  layer->weight.set_data(torch::zeros({3}));
  layer->bias.data().zero_();
  EXPECT_TRUE(guard.kept()[0].values.equal(weight));
  EXPECT_TRUE(guard.kept()[1].values.equal(bias));
}

TEST(CopyBeforeWrite, InnerGuardsKeepTheValuesAtTheirBeginning) {
  const auto x = torch::zeros({2});
  const CopyBeforeWrite outer({x});
  {
    const CopyBeforeWrite inner({x});
    x.add_(1);
    EXPECT_TRUE(inner.kept()[0].values.equal(torch::zeros({2})));
  }
  x.add_(1);
  EXPECT_TRUE(outer.kept()[0].values.equal(torch::zeros({2})));
}

}  // namespace
}  // namespace attend
