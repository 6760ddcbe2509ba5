#include "attend/train/loss_curves.h"

#include "attend/train/metrics_log.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

namespace attend::train {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

auto point(int64_t step, double loss) {
  return testing::AllOf(testing::Field(&LossPoint::step, step),
                        testing::Field(&LossPoint::loss, DoubleEq(loss)));
}

class LossCurvesTest : public testing::Test {
 protected:
  /// Writes a log with three steps, the second with a loss that is not finite, and an evaluation.
  void write_log() const {
    MetricsLog log(path_);
    log.on_progress({.step = 10, .train_loss = 2.5, .seconds = 1.5});
    log.on_progress({.step = 20, .train_loss = NAN, .seconds = 3.0});
    log.on_progress({.step = 30, .train_loss = 1.25, .seconds = 4.5});
    Evaluation evaluation;
    evaluation.loss = 2.0;
    log.on_evaluation(30, evaluation);
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "metrics.jsonl";
};

TEST_F(LossCurvesTest, ReadsWhatMetricsLogWrites) {
  write_log();
  const auto curves = read_loss_curves(path_);
  EXPECT_THAT(curves.train, ElementsAre(point(10, 2.5), point(30, 1.25)));
  EXPECT_THAT(curves.val, ElementsAre(point(30, 2.0)));
  EXPECT_EQ(curves.steps, 30);
  EXPECT_EQ(curves.damaged, 0);
  EXPECT_THAT(curves.seconds, Optional(4.5));
}

TEST_F(LossCurvesTest, LeavesOutDamagedLines) {
  write_log();
  std::ofstream(path_, std::ios::app) << "[1]\n{\"step\":\"x\",\"val_loss\":1}\n{\"step\":1e300,"
                                         "\"val_loss\":1}\n{\"step\":40,\"val";
  const auto curves = read_loss_curves(path_);
  EXPECT_EQ(curves.steps, 30);
  EXPECT_EQ(curves.val.size(), 1);
  EXPECT_EQ(curves.damaged, 3) << "without the last line, which is incomplete";
}

TEST_F(LossCurvesTest, AMissingFileHasNoLosses) {
  const auto curves = read_loss_curves(path_);
  EXPECT_TRUE(curves.train.empty());
  EXPECT_TRUE(curves.val.empty());
  EXPECT_EQ(curves.steps, 0);
}

}  // namespace
}  // namespace attend::train
