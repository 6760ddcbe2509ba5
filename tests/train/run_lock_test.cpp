#include "attend/input_error.h"
#include "attend/train/run_directory.h"
#include "support/run_directory.h"
#include "support/throws.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace attend::train {
namespace {

/// Runs `function` in a child process and returns its result, 0 to 255.
template <typename Function>
int in_another_process(const Function& function) {
  const auto process = ::fork();
  if (process == 0) ::_exit(function());
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int can_lock(const std::filesystem::path& directory) {
  try {
    const RunLock lock(directory);
    return 1;
  } catch (const InputError&) {
    return 0;
  }
}

TEST(RunLock, IsLockedByThisOrAnotherProcess) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(RunDirectory::is_locked(directory.path()));
  EXPECT_FALSE(std::filesystem::exists(directory / RunLock::kFile));
  {
    const RunLock lock(directory.path());
    EXPECT_TRUE(RunDirectory::is_locked(directory.path()));
    EXPECT_EQ(in_another_process([&] { return RunDirectory::is_locked(directory.path()) ? 1 : 0; }),
              1);
  }
  EXPECT_FALSE(RunDirectory::is_locked(directory.path()));
  EXPECT_EQ(in_another_process([&] { return can_lock(directory.path()); }), 1);
}

TEST(RunLock, IsExclusive) {
  const TemporaryDirectory directory;
  {
    const RunLock lock(directory.path());
    EXPECT_THAT(
        [&] { RunLock(directory.path()); },
        throws<InputError>((std::to_string(::getpid()) + " is writing to this run").c_str()));
    EXPECT_EQ(in_another_process([&] { return can_lock(directory.path()); }), 0);
  }
  EXPECT_EQ(in_another_process([&] { return can_lock(directory.path()); }), 1);
  EXPECT_NO_THROW(RunLock(directory.path()));
}

/// A child process that holds a lock; killed at the end of the scope.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& directory) {
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      const RunLock lock(directory);
      if (::write(ready[1], "!", 1) == 1) ::pause();
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  std::string name() const { return std::to_string(process_); }

 private:
  pid_t process_;
};

TEST(RunLock, IsReleasedWhenTheProcessIsKilled) {
  const TemporaryDirectory directory;
  {
    const Holder holder(directory.path());
    EXPECT_THAT([&] { RunLock(directory.path()); },
                throws<InputError>(("process " + holder.name() + " is writing").c_str()));
  }
  EXPECT_NO_THROW(RunLock(directory.path()));
}

TEST(RunLock, NamesADirectoryThatCannotBeWritten) {
  EXPECT_THAT([] { RunLock("/proc/no/such/place"); },
              throws<InputError>("/proc/no/such/place cannot be written: No such file"));
}

TEST(RunLock, FindsARemovedMovedOrReplacedDirectory) {
  namespace fs = std::filesystem;
  const TemporaryDirectory parent;
  const auto directory = parent / "run";
  fs::create_directory(directory);
  const RunLock lock(directory);
  const auto check = [&] { lock.check_in_place("step 7"); };
  const auto is_named = throws_naming<std::runtime_error>(directory.string().c_str(), "step 7");
  EXPECT_NO_THROW(check());
  fs::rename(directory, parent / "moved");
  EXPECT_THAT(check, is_named);
  fs::create_directory(directory);
  RunLock{directory};
  EXPECT_THAT(check, is_named);
  fs::remove_all(directory);
  fs::rename(parent / "moved", directory);
  EXPECT_NO_THROW(check());
  fs::remove_all(directory);
  EXPECT_THAT(check, is_named);
}

using LockedRun = RunDirectoryTest;

TEST_F(LockedRun, IsNotOverwrittenWhileAnotherProcessWritesToIt) {
  train_for(4);
  finish();
  run_.reset();
  const Holder holder(path_);
  EXPECT_THAT([&] { RunDirectory::create(path_, new_record(recipe_, *task_), true); },
              throws<InputError>("is writing to this run"));
  EXPECT_TRUE(std::filesystem::exists(path_ / RunFiles::model))
      << "the files of the run were moved";
}

}  // namespace
}  // namespace attend::train
