// The comparison of the processes at the start, and their error reports at the end.
#include "attend/input_error.h"
#include "attend/train/training_run.h"
#include "distributed/error_report.h"
#include "distributed/rendezvous.h"
#include "support/in_threads.h"
#include "support/temporary_directory.h"
#include "train/processes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <numeric>
#include <thread>

namespace attend::distributed {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

c10::intrusive_ptr<c10d::Store> make_hash_store() {
  auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::minutes(1));
  return store;
}

Launch launch_of_rank(int64_t rank, int64_t size) {
  Launch launch;
  launch.rank = rank;
  launch.world_size = size;
  return launch;
}

/// A store on a machine that is gone: c10d waits for its answer without a timeout.
class SilentStore : public c10d::HashStore {
 public:
  explicit SilentStore(std::shared_future<void> end) : end_(std::move(end)) {}
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<c10d::HashStore>();
  }
  bool check(const std::vector<std::string>& /*keys*/) override {
    end_.wait();
    throw std::runtime_error("no answer");
  }

 private:
  std::shared_future<void> end_;
};

TEST(Rendezvous, EqualProcessesAreAccepted) {
  const auto store = make_hash_store();
  const auto errors = in_threads(
      3, [&](int64_t rank) { rendezvous(store, launch_of_rank(rank, 3), {"WORLD_SIZE 3"}); });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, NamesWhatDiffers) {
  const auto store = make_hash_store();
  const auto errors = in_threads(3, [&](int64_t rank) {
    const auto version = rank == 2 ? "LibTorch 2.12" : "LibTorch 2.13";
    const auto call = [&] {
      rendezvous(store, launch_of_rank(rank, 3), {"WORLD_SIZE 3", version});
    };
    EXPECT_THAT(call,
                testing::ThrowsMessage<InputError>(AllOf(
                    HasSubstr("rank 2"), HasSubstr("LibTorch 2.12"), HasSubstr("LibTorch 2.13"))));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Rendezvous, AllNameTheProcessesThatDoNotStart) {
  const auto store = make_hash_store();
  store->setTimeout(std::chrono::seconds(2));
  const auto errors = in_threads(4, [&](int64_t rank) {
    if (rank % 2 == 0) rendezvous(store, launch_of_rank(rank, 4), {});
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("ranks 1, 3 "), HasSubstr(" 2 ")));
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(Rendezvous, NamesRank0IfItDoesNotStart) {
  const auto store = make_hash_store();
  store->setTimeout(std::chrono::milliseconds(50));
  auto launch = launch_of_rank(1, 2);
  launch.job = "nightly";
  EXPECT_THAT([&] { rendezvous(store, launch, {}); },
              testing::ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("rank 0 "), HasSubstr("nightly"), HasSubstr("0.05"))));
}

TEST(Rendezvous, AStoreMayContainTheKeysOfEarlierProcesses) {
  const auto store = make_hash_store();
  for (const std::string version : {"1", "2"}) {
    const auto errors = in_threads(3, [&](int64_t rank) {
      // Rank 0 finds the texts of the earlier processes first.
      if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto session = rendezvous(store, launch_of_rank(rank, 3), {"attend " + version});
      session->set("last", version);
      EXPECT_EQ(session->get_to_str("last"), version);
    });
    EXPECT_THAT(errors, Each(""));
  }
}

TEST(Rendezvous, AStoreThatDoesNotAnswerIsAnError) {
  std::promise<void> end;
  const auto store = c10::make_intrusive<SilentStore>(end.get_future().share());
  store->setTimeout(std::chrono::milliseconds(50));
  const auto errors = in_threads(2, [&](int64_t rank) {
    EXPECT_THROW(rendezvous(store, launch_of_rank(rank, 2), {}), c10::Error) << rank;
  });
  EXPECT_THAT(errors, Each(""));
  end.set_value();
}

TEST(Connect, AStoreMayBeThatOfAnotherJob) {
  const auto first = local_launch(2);
  std::promise<void> other_has_ended;
  const auto ended = other_has_ended.get_future().share();
  const auto errors = in_threads(3, [&](int64_t index) {
    auto launch = first;
    launch.rank = std::min<int64_t>(index, 1);
    if (index < 2) {
      launch.job = "first";
      // Rank 0 finds rank 1 of the other job before its own.
      if (index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const auto processes = connect(launch, {.timeout = std::chrono::minutes(1)});
      EXPECT_EQ(processes->rank(), index);
      ended.wait();
    } else {
      launch.job = "second";
      EXPECT_THAT([&] { connect(launch, {.timeout = std::chrono::seconds(2)}); },
                  testing::ThrowsMessage<std::runtime_error>(
                      AllOf(HasSubstr("rank 0 "), HasSubstr("second"))));
      other_has_ended.set_value();
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ErrorReport, NamesTheProcessThatDoesNotAnswer) {
  const auto store = make_hash_store();
  std::latch started(2);
  const auto errors = in_threads(3, [&](int64_t rank) {
    if (rank == 1) return;
    ErrorReport report(store, launch_of_rank(rank, 3), std::chrono::seconds(2));
    started.arrive_and_wait();
    throw std::runtime_error(report.cause("closed by peer"));
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 "), HasSubstr("closed by peer")));
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(ErrorReport, DoesNotNameAProcessThatComputes) {
  const auto store = make_hash_store();
  std::latch started(2);
  const auto errors = in_threads(3, [&](int64_t rank) {
    if (rank == 2) return;
    ErrorReport report(store, launch_of_rank(rank, 3), std::chrono::seconds(2));
    started.arrive_and_wait();
    if (rank == 1) store->wait({"cause"}, std::chrono::minutes(1));  // notices it last
    throw std::runtime_error(report.cause("closed by peer"));
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 "));
  EXPECT_EQ(errors[1], errors[0]);
}

TEST(ErrorReport, NamesAProcessThatIsAliveIfAllAre) {
  const auto store = make_hash_store();
  std::latch started(2);
  const auto errors = in_threads(2, [&](int64_t rank) {
    ErrorReport report(store, launch_of_rank(rank, 2), std::chrono::seconds(2));
    started.arrive_and_wait();
    if (rank == 1) store->wait({"cause"}, std::chrono::minutes(1));
    if (rank == 0) throw std::runtime_error(report.cause("timed out"));
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 "), HasSubstr("timed out")));
}

TEST(ErrorReport, TellsTheErrorOfAnotherProcess) {
  const auto store = make_hash_store();
  const auto errors = in_threads(3, [&](int64_t rank) {
    ErrorReport report(store, launch_of_rank(rank, 3), std::chrono::minutes(1));
    std::string message = "full disk";
    if (rank != 1) message = report.cause("closed by peer");
    report.announce(message);
    EXPECT_EQ(report.is_new(message), rank < 2) << "rank 2 has the message of rank 0";
    throw std::runtime_error(message);
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 "), HasSubstr("full disk")));
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(ErrorReport, NamesRank0IfItsStoreDoesNotAnswer) {
  std::promise<void> end;
  auto launch = launch_of_rank(1, 2);
  launch.address = "node1";
  launch.port = 29500;
  ErrorReport report(c10::make_intrusive<SilentStore>(end.get_future().share()), launch,
                     std::chrono::milliseconds(500));
  const auto cause = report.cause("timed out");
  EXPECT_THAT(cause, AllOf(HasSubstr("rank 0 "), HasSubstr("node1:29500"), HasSubstr("timed out")));
  report.announce(cause);
  EXPECT_TRUE(report.is_new(cause));
  end.set_value();
}

/// Counts the requests of a process to a store, without the questions whether a key exists, whose
/// number depends on the time.
class CountingStore : public c10d::PrefixStore {
 public:
  explicit CountingStore(const c10::intrusive_ptr<c10d::Store>& store) : PrefixStore("", store) {}
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<PrefixStore>("", getUnderlyingStore());
  }
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    ++count;
    PrefixStore::set(key, value);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    ++count;
    return PrefixStore::get(key);
  }
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& value) override {
    ++count;
    return PrefixStore::compareSet(key, expected, value);
  }

  int64_t count = 0;
};

/// Returns the numbers of requests of `size` processes, by rank.
std::vector<int64_t> requests(
    int64_t size,
    const std::function<void(int64_t rank, const c10::intrusive_ptr<c10d::Store>&)>& work) {
  const auto store = make_hash_store();
  std::vector<int64_t> counts(static_cast<std::size_t>(size));
  const auto errors = in_threads(size, [&](int64_t rank) {
    const auto counting = c10::make_intrusive<CountingStore>(store);
    work(rank, counting);
    counts[static_cast<std::size_t>(rank)] = counting->count;
  });
  EXPECT_THAT(errors, Each(""));
  return counts;
}

TEST(Rendezvous, RequestsOfAProcessDoNotDependOnTheNumberOfProcesses) {
  const auto requests_of = [](int64_t size) {
    return requests(size, [size](int64_t rank, const auto& store) {
      rendezvous(store, launch_of_rank(rank, size), {"attend 1"});
    });
  };
  auto counts = requests_of(100);
  counts.erase(counts.begin());
  EXPECT_THAT(counts, Each(requests_of(2)[1]));
}

TEST(ErrorReport, RequestsAreProportionalToTheNumberOfProcesses) {
  constexpr int64_t kSize = 100;
  const auto counts = requests(kSize, [](int64_t rank, const auto& store) {
    ErrorReport report(store, launch_of_rank(rank, kSize), std::chrono::minutes(1));
    report.announce(report.cause("closed by peer"));
  });
  EXPECT_LE(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 10 * kSize);
}

TEST(CheckEqual, NamesTheFirstLineThatDiffers) {
  const auto errors = in_processes(3, [](const auto& processes) {
    const std::string lr = processes->rank() == 1 ? "lr = 0.1" : "lr = 0.2";
    train::check_equal(*processes, {{"version", "1"}, {"recipe", "seed = 0\n" + lr}});
  });
  EXPECT_THAT(errors, Each(errors[0]));
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1"), HasSubstr("recipe"), HasSubstr("`lr = 0.1`"),
                               HasSubstr("`lr = 0.2`")));
}

TEST(CheckEqual, NamesAValueThatAProcessDoesNotHave) {
  const auto errors = in_processes(2, [](const auto& processes) {
    train::check_equal(*processes, {{processes->rank() == 1 ? "weights" : "recipe", "a"}});
  });
  EXPECT_THAT(errors, Each(AllOf(errors[0], HasSubstr("rank 1"), HasSubstr("weights"))));
}

TEST(RecipeRun, ProcessesWithOtherDataAreRefused) {
  const TemporaryDirectory folder;
  const auto text = [&](int64_t rank) {
    const auto path = folder.path() / fmt::format("{}.txt", rank);
    std::ofstream(path) << std::string(1000, static_cast<char>('a' + rank)) << "ab\n";
    return path.string();
  };
  auto recipe = train::find_task("text").defaults;
  recipe.training.device = "cpu";
  recipe.text = {text(0)};
  const auto other = text(1);
  const auto errors = in_processes(2, [&](const auto& processes) {
    const auto task_maker = [&](train::Recipe found, std::shared_ptr<const Tokenizer> tokenizer) {
      if (processes->rank() == 1) found.text = {other};
      return train::make_task(found, std::move(tokenizer));
    };
    train::make_training_run(
        folder.path() / "run", recipe,
        {.mode = train::RunMode::begin, .task_maker = task_maker, .processes = processes});
  });
  EXPECT_THAT(errors, Each(errors[0]));
  EXPECT_THAT(errors[0], HasSubstr("rank 1"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
}

TEST(RecipeRun, ProcessesThatResumeWithOtherDataAreAllRefused) {
  const TemporaryDirectory folder;
  const auto run = folder.path() / "run";
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  for (const std::string name : {"a", "b"})
    std::ofstream(path(name)) << std::string(1000, 'a') << "ab" << name << '\n';
  auto recipe = train::find_task("text").defaults;
  recipe.training.device = "cpu";
  recipe.text = {path("a")};
  { auto begun = train::make_training_run(run, recipe, {.mode = train::RunMode::begin}); }
  const auto errors = in_processes(2, [&](const auto& processes) {
    const auto task_maker = [&](train::Recipe found, std::shared_ptr<const Tokenizer> tokenizer) {
      if (processes->rank() == 1) found.text = {path("b")};
      return train::make_task(found, std::move(tokenizer));
    };
    EXPECT_THROW(
        train::make_training_run(
            run, recipe,
            {.mode = train::RunMode::resume, .task_maker = task_maker, .processes = processes}),
        InputError);
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace attend::distributed
