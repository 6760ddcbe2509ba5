#include "attend/ops/attention_recorder.h"

#include "attend/nn/multihead_attention.h"
#include "attend/ops/attention.h"
#include "support/close.h"

#include <memory>
#include <stdexcept>
#include <thread>

namespace attend {
namespace {

torch::Tensor run_attention(int64_t keys) {
  const auto q = torch::ones({2, 4});
  const auto k = torch::ones({keys, 4});
  return attend::dot_product_attention(q, k, k, AttentionArgs()).output;
}

TEST(AttentionRecorder, RecordsWeightsOfEachCallInOrder) {
  AttentionRecorder recorder;
  EXPECT_TRUE(recorder.weights().empty());
  run_attention(3);
  run_attention(5);
  ASSERT_EQ(recorder.weights().size(), 2U);
  EXPECT_TRUE(close(recorder.weights()[0], torch::full({2, 3}, 1 / 3.0), 1e-6));
  EXPECT_TRUE(close(recorder.weights()[1], torch::full({2, 5}, 1 / 5.0), 1e-6));
}

TEST(AttentionRecorder, RecordsWithoutNeedWeights) {
  const auto x = torch::ones({2, 4});
  AttentionRecorder recorder;
  const auto result = attend::dot_product_attention(x, x, x, {.causal = true});
  EXPECT_FALSE(result.weights.defined());
  EXPECT_TRUE(close(recorder.weights().at(0), torch::tensor({{1.0, 0.0}, {0.5, 0.5}}), 1e-6));
}

TEST(AttentionRecorder, DoesNotChangeTheOutput) {
  torch::manual_seed(1);
  MultiheadAttention attention(8, 2);
  const auto x = torch::randn({2, 5, 8});
  const auto alone = attention->forward(x, {.causal = true}).output;
  AttentionRecorder recorder;
  EXPECT_TRUE(close(attention->forward(x, {.causal = true}).output, alone, 1e-6));
  EXPECT_EQ(recorder.weights().at(0).sizes(), at::IntArrayRef({2, 2, 5, 5}));  // (B, H, T, T)
}

TEST(AttentionRecorder, InnermostRecorderRecords) {
  AttentionRecorder outer;
  run_attention(1);
  {
    AttentionRecorder inner;
    run_attention(2);
    ASSERT_EQ(inner.weights().size(), 1U);
    EXPECT_EQ(inner.weights()[0].size(-1), 2);
  }
  run_attention(3);
  ASSERT_EQ(outer.weights().size(), 2U);
  EXPECT_EQ(outer.weights()[0].size(-1), 1);
  EXPECT_EQ(outer.weights()[1].size(-1), 3);
}

TEST(AttentionRecorder, StopsAtScopeExitByException) {
  try {
    AttentionRecorder recorder;
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(AttentionRecorder::is_recording());
  run_attention(2);  // must not access the destroyed recorder
}

TEST(AttentionRecorder, RecordsItsOwnThreadOnly) {
  AttentionRecorder recorder;
  std::thread([] { run_attention(2); }).join();
  EXPECT_TRUE(recorder.weights().empty());
}

TEST(AttentionRecorder, RecordersMayEndInAnyOrder) {
  auto outer = std::make_unique<AttentionRecorder>();
  auto inner = std::make_unique<AttentionRecorder>();
  outer.reset();
  run_attention(2);
  EXPECT_EQ(inner->weights().size(), 1U);
  inner.reset();
  EXPECT_FALSE(AttentionRecorder::is_recording());
  run_attention(2);  // must not access the destroyed recorders
}

TEST(AttentionRecorder, MayEndOnAnotherThread) {
  AttentionRecorder outer;
  auto inner = std::make_unique<AttentionRecorder>();
  std::thread([&] { inner.reset(); }).join();
  run_attention(2);
  EXPECT_EQ(outer.weights().size(), 1U);
}

TEST(AttentionRecorder, MayOutliveItsThread) {
  std::unique_ptr<AttentionRecorder> recorder;
  std::thread([&] {
    recorder = std::make_unique<AttentionRecorder>();
    run_attention(2);
  }).join();
  EXPECT_EQ(recorder->weights().size(), 1U);
  recorder.reset();
  EXPECT_FALSE(AttentionRecorder::is_recording());
}

TEST(AttentionRecorder, MayEndDuringAPause) {
  auto recorder = std::make_unique<AttentionRecorder>();
  {
    const AttentionRecorderPause pause;
    run_attention(2);
    EXPECT_TRUE(recorder->weights().empty());
    recorder.reset();
  }
  EXPECT_FALSE(AttentionRecorder::is_recording());
  run_attention(2);
}

TEST(AttentionRecorder, WeightsAreDetachedAndBeforeDropout) {
  const auto x = torch::ones({4, 4}).requires_grad_();
  AttentionRecorder recorder;
  attend::dot_product_attention(x, x, x, AttentionArgs(), {.dropout = 0.5});
  EXPECT_FALSE(recorder.weights().back().requires_grad());
  EXPECT_TRUE(close(recorder.weights().back(), torch::full({4, 4}, 0.25), 1e-6));
}

}  // namespace
}  // namespace attend
