#include "attend/train/metrics_log.h"

#include "attend/io/files.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

TEST(MetricsLog, EachReportIsALine) {
  const TemporaryDirectory directory;
  MetricsLog log(directory / "metrics.jsonl");
  log.on_progress(Progress{.step = 3, .loss = 0.5});
  log.on_evaluation(3, Evaluation{.loss = 0.25, .accuracy = 1.0});
  // Read while the log is open: a run that is stopped keeps its lines.
  const auto text = read_bytes(directory / "metrics.jsonl");
  EXPECT_THAT(text, testing::StartsWith("{\"step\":3,\"loss\":0.5,"));
  EXPECT_THAT(text, testing::EndsWith("{\"step\":3,\"val_loss\":0.25,\"val_accuracy\":1.0}\n"));
}

TEST(MetricsLog, SaysThatItCannotWrite) {
  EXPECT_THROW(MetricsLog("/proc/no/such/place"), std::runtime_error);
}

}  // namespace
}  // namespace attend::train
