#include "attend/train/metrics_log.h"

#include "io/files.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

namespace attend::train {
namespace {

using nlohmann::json;

class MetricsLogTest : public testing::Test {
 protected:
  std::vector<json> lines() const {
    std::vector<json> lines;
    std::istringstream text(read_bytes(path_));
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const auto& line : lines()) steps.push_back(line.at("step"));
    return steps;
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "metrics.jsonl";
};

TEST_F(MetricsLogTest, WritesEachReportAsALineImmediately) {
  MetricsLog log(path_);
  log.on_progress(Progress{3, 0.5, 0.25, 2.0, 8.0, 1024.0, 4096, 1});
  EXPECT_EQ(lines().back(), (json{{"step", 3},
                                  {"train_loss", 0.5},
                                  {"lr", 0.25},
                                  {"grad_norm", 2.0},
                                  {"seconds", 8.0},
                                  {"tokens_per_second", 1024.0},
                                  {"peak_memory", 4096},
                                  {"skipped_steps", 1}}));
  log.on_progress(Progress{.step = 4, .accuracy = 0.75});
  EXPECT_EQ(lines().back().at("train_accuracy"), 0.75);
  log.on_evaluation(3, Evaluation{0.25, {5, 5}, 7});
  EXPECT_EQ(lines().back(),
            (json{{"step", 3}, {"val_loss", 0.25}, {"val_targets", 7}, {"val_accuracy", 1.0}}));
  EXPECT_THAT(read_bytes(path_), testing::StartsWith("{\"step\":3,\"train_loss\":0.5,"));
}

TEST_F(MetricsLogTest, WritesNonFiniteNumbersAsNull) {
  MetricsLog log(path_);
  log.on_progress(Progress{.step = 1, .train_loss = NAN, .grad_norm = INFINITY});
  EXPECT_TRUE(lines().back().at("train_loss").is_null());
  EXPECT_TRUE(lines().back().at("grad_norm").is_null());
}

TEST_F(MetricsLogTest, NewRunTruncatesTheFile) {
  replace_file(path_, "{\"step\":1}\n");
  MetricsLog log(path_);
  EXPECT_EQ(read_bytes(path_), "");
}

TEST_F(MetricsLogTest, ResumedRunKeepsEarlierLines) {
  {
    MetricsLog log(path_);
    for (int64_t step = 10; step <= 40; step += 10) log.on_progress(Progress{.step = step});
    log.on_evaluation(20, Evaluation{});
  }
  const auto before = read_bytes(path_);
  MetricsLog log(path_, 20);
  log.on_progress(Progress{.step = 30, .train_loss = 7.0});
  EXPECT_THAT(steps(), testing::ElementsAre(10, 20, 20, 30));
  EXPECT_EQ(lines().back().at("train_loss"), 7.0);
  EXPECT_EQ(read_bytes(path_).substr(0, before.find('\n')), before.substr(0, before.find('\n')));
}

TEST_F(MetricsLogTest, ResumedRunDropsIncompleteLines) {
  for (const auto* incomplete :
       {"{\"step\":2,\"lo", "{\"step\":2", "{", "{\"step\":\"two\"}\n", "\n", "[2]"}) {
    replace_file(path_, std::string("{\"step\":1}\n") + incomplete);
    MetricsLog log(path_, 5);
    log.on_progress(Progress{.step = 6});
    EXPECT_THAT(steps(), testing::ElementsAre(1, 6)) << incomplete;
  }
}

TEST_F(MetricsLogTest, ResumedRunCreatesAMissingFile) {
  MetricsLog log(path_, 5);
  log.on_progress(Progress{.step = 6});
  EXPECT_THAT(steps(), testing::ElementsAre(6));
}

TEST_F(MetricsLogTest, NamesAFileThatCannotBeWritten) {
  EXPECT_THAT([] { MetricsLog("/proc/no/such/place"); },
              throws<std::runtime_error>("/proc/no/such/place: cannot be written: No such file"));
  MetricsLog full("/dev/full");
  EXPECT_THAT([&] { full.on_progress(Progress{}); },
              throws<std::runtime_error>("/dev/full: cannot be written: No space left"));
}

}  // namespace
}  // namespace attend::train
