#include "attend/train/metrics_log.h"
#include "io/files.h"
#include "support/event_file.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <set>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

class TensorBoardLogTest : public testing::Test {
 protected:
  std::vector<fs::path> files() const {
    std::set<fs::path> sorted;
    for (const auto& entry : fs::directory_iterator(log_directory_)) sorted.insert(entry.path());
    return {sorted.begin(), sorted.end()};
  }

  TemporaryDirectory directory_;
  fs::path log_directory_ = directory_ / "deep" / "tensorboard";
};

TEST_F(TensorBoardLogTest, WritesEachReportImmediately) {
  TensorBoardLog log(log_directory_);
  log.on_progress(Progress{3, 0.5, 0.25, 2.0, 8.0, 1024.0, int64_t{1} << 40, 1});
  log.on_evaluation(300, Evaluation{.loss = 0.125, .exact_match = {3, 4}});
  log.on_evaluation(int64_t{1} << 40, Evaluation{.loss = 4.0});
  const auto events = read_events(files().at(0));
  ASSERT_EQ(events.size(), 4);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"train/loss", 0.5F},
                                                             {"train/lr", 0.25F},
                                                             {"train/grad_norm", 2.0F},
                                                             {"train/tokens_per_second", 1024.0F},
                                                             {"train/peak_memory", 0x1p40F}}));
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"val/loss", 0.125F}, {"val/accuracy", 0.75F}}));
  EXPECT_EQ(events[3].step, int64_t{1} << 40);
  EXPECT_EQ(events[3].scalars, (std::map<std::string, float>{{"val/loss", 4.0F}}));
}

TEST_F(TensorBoardLogTest, WritesTheAccuracy) {
  TensorBoardLog log(log_directory_);
  log.on_progress(Progress{.step = 1, .accuracy = 0.75});
  EXPECT_EQ(read_events(files().at(0)).back().scalars.at("train/accuracy"), 0.75F);
}

TEST_F(TensorBoardLogTest, WritesTheWallTime) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const double before = now();
  TensorBoardLog log(log_directory_);
  log.on_progress(Progress{.step = 1});
  for (const auto& event : read_events(files().at(0))) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, now());
  }
}

TEST_F(TensorBoardLogTest, WritesNonFiniteLosses) {
  TensorBoardLog log(log_directory_);
  log.on_progress(Progress{.step = 1, .train_loss = NAN, .grad_norm = INFINITY});
  auto scalars = read_events(files().at(0)).at(1).scalars;
  EXPECT_TRUE(std::isnan(scalars["train/loss"]));
  EXPECT_TRUE(std::isinf(scalars["train/grad_norm"]));
}

TEST_F(TensorBoardLogTest, ResumedRunCreatesALaterFileAndKeepsTheOthers) {
  TensorBoardLog(log_directory_).on_progress(Progress{.step = 30});
  const auto first = files().at(0);
  const auto before = read_bytes(first);
  TensorBoardLog(log_directory_, 20).on_progress(Progress{.step = 21});
  TensorBoardLog(log_directory_, 25).on_progress(Progress{.step = 26});
  ASSERT_EQ(files().size(), 3);
  EXPECT_EQ(files()[0], first);
  EXPECT_EQ(read_bytes(first), before);
  EXPECT_EQ(read_events(files()[1]).at(2).step, 21);
  const auto events = read_events(files()[2]);
  ASSERT_EQ(events.size(), 3);
  EXPECT_TRUE(events[1].restarts);
  EXPECT_EQ(events[1].step, 26);
  EXPECT_FALSE(read_events(first).at(1).restarts);
}

TEST_F(TensorBoardLogTest, NamesADirectoryThatCannotBeCreated) {
  EXPECT_THAT([] { TensorBoardLog("/proc/no/such/place"); },
              throws<std::runtime_error>("/proc/no/such/place: cannot be created: "));
  replace_file(directory_ / "file", "");
  EXPECT_THAT([&] { TensorBoardLog(directory_ / "file"); }, throws<std::runtime_error>("/file"));
}

}  // namespace
}  // namespace attend::train
