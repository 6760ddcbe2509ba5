#include "io/files.h"

#include "attend/input_error.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace attend {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Files, ReadTextRejectsMissingEmptyAndInvalidText) {
  const TemporaryDirectory directory;
  const auto read = [&](const char* name) {
    return [=, &directory] { read_text(directory / name); };
  };
  EXPECT_THAT(read("missing.txt"),
              ThrowsMessage<InputError>(HasSubstr("missing.txt: no such file")));

  std::ofstream(directory / "empty.txt").close();
  EXPECT_THAT(read("empty.txt"), ThrowsMessage<InputError>(HasSubstr("empty")));

  std::ofstream(directory / "latin1.txt") << "caf\xE9 au lait";
  EXPECT_THAT(read("latin1.txt"),
              ThrowsMessage<InputError>(HasSubstr("found byte 0xE9 at offset 3")));

  EXPECT_THAT(read(""), ThrowsMessage<InputError>(HasSubstr("found a directory")));
}

TEST(Files, ReadTextRemovesAByteOrderMark) {
  const TemporaryDirectory directory;
  replace_file(directory / "text", "\uFEFFabc");
  EXPECT_EQ(read_text(directory / "text"), "abc");
}

TEST(Files, ReadTextNamesThePlaceOfAnInvalidByteOrNul) {
  const TemporaryDirectory directory;
  const auto read = [&] { read_text(directory / "text"); };
  replace_file(directory / "text", "grün\nü\xE9");
  EXPECT_THAT(read, throws_naming<InputError>("text", "0xE9", "offset 8", "line 2, column 2"));
  replace_file(directory / "text", std::string("one\ntw\0o", 8));
  EXPECT_THAT(read, throws_naming<InputError>("text", "NUL", "offset 6", "line 2, column 3"));
}

TEST(Files, ReadTextOfBytesRejectsOnlyUtf16) {
  const TemporaryDirectory directory;
  const auto path = directory / "text";
  const auto read = [&] { return read_text(path, {}, TextEncoding::bytes); };
  const std::string bytes("caf\xE9\0\xFF", 6);
  replace_file(path, "\xEF\xBB\xBF" + bytes);
  EXPECT_EQ(read(), bytes);
  EXPECT_THAT([&] { read_text(path); }, throws_naming<InputError>(path.string(), "0xE9"));
  for (const auto& utf16 : {std::string("\xFF\xFEt\0", 4), std::string("t\0e\0", 4)}) {
    replace_file(path, utf16);
    EXPECT_THAT(read, throws_naming<InputError>(path.string(), "UTF-16"));
  }
  replace_file(path, "");
  EXPECT_THAT(read, throws_naming<InputError>(path.string()));
}

TEST(Files, ReadersRejectMoreBytesThanTheLimit) {
  const TemporaryDirectory directory;
  const auto path = directory / "text";
  replace_file(path, "four");
  const SizeLimit three{3, "max_bytes"};
  for (const SizeLimit limit : {SizeLimit{4}, SizeLimit{}}) {
    EXPECT_EQ(read_text(path, limit), "four");
    EXPECT_EQ(read_bytes(path, limit), "four");
    std::istringstream stream("four");
    EXPECT_EQ(read_all(stream, "stream", limit), "four");
  }
  EXPECT_THAT([&] { read_text(path, three); },
              throws_naming<InputError>("text", "4", "3", "max_bytes"));
  EXPECT_THAT([&] { read_bytes(path, three); },
              throws_naming<InputError>("text", "4", "3", "max_bytes"));
  std::istringstream stream("four");
  EXPECT_THAT([&] { read_all(stream, "stream", three); },
              throws_naming<InputError>("stream", "3", "max_bytes"));
  EXPECT_THAT([&] { read_bytes("/dev/zero", three); },
              throws_naming<InputError>("/dev/zero", "3", "max_bytes"));
}

TEST(Files, ReadLineRejectsLongerLinesThanTheLimit) {
  std::istringstream stream("one\n\ntwo\nfour");
  const SizeLimit three{3, "max_bytes"};
  std::string line;
  for (const char* expected : {"one", "", "two"}) {
    EXPECT_TRUE(read_line(stream, line, "stream", three));
    EXPECT_EQ(line, expected);
  }
  EXPECT_THAT([&] { read_line(stream, line, "stream", three); },
              throws_naming<InputError>("stream", "3", "max_bytes"));
  std::istringstream unfinished("end");
  EXPECT_TRUE(read_line(unfinished, line, "stream", three));
  EXPECT_EQ(line, "end");
  EXPECT_FALSE(read_line(unfinished, line, "stream", three));
}

TEST(Files, ReadTextRejectsDevicesAndPipesWithoutReadingThem) {
  EXPECT_THAT([] { read_text("/dev/zero"); }, throws_naming<InputError>("/dev/zero"));
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { read_text(directory / "pipe"); }, throws_naming<InputError>("pipe"));
}

TEST(Files, ReadTextOrPipeEndsAtTheLimit) {
  EXPECT_THAT([] { read_text_or_pipe("/dev/zero", {.bytes = 3}); },
              throws_naming<InputError>("/dev/zero", "3"));
}

TEST(Files, OpeningAPipeWithoutAWriterThrows) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THAT([&] { open_to_read(directory / "pipe"); }, throws_naming<InputError>("pipe"));
}

TEST(Files, APipeIsReadToItsEndEvenIfItsWriterIsSlowOrDone) {
  const TemporaryDirectory directory;
  const auto path = directory / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream pipe(path);  // blocks until the pipe is opened for reading
    pipe << "one\n" << std::flush;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pipe << "two\n";
  });
  EXPECT_EQ(read_bytes(path), "one\ntwo\n");
  writer.join();

  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::ofstream(path) << "done";  // closed before the pipe is opened to read
  EXPECT_EQ(read_bytes(path), "done");
  ::close(reader);
}

TEST(Files, ReadStartReturnsAtMostTheWholeFile) {
  const TemporaryDirectory directory;
  replace_file(directory / "file", "abcd");
  EXPECT_EQ(read_start(directory / "file", 2), "ab");
  EXPECT_EQ(read_start(directory / "file", 4), "abcd");
  EXPECT_EQ(read_start(directory / "file", 99), "abcd");
  EXPECT_THAT([&] { read_start(directory / "none", 2); },
              ThrowsMessage<InputError>(HasSubstr("no such file")));
}

TEST(Files, ReplaceFileDoesNotFollowLinksOfTheTemporaryName) {
  const TemporaryDirectory directory;
  const auto other = directory / "other";
  replace_file(other, "untouched");
  std::filesystem::create_symlink(other, directory / fmt::format("file.{}.tmp", ::getpid()));
  replace_file(directory / "file", "content");
  EXPECT_EQ(read_bytes(directory / "file"), "content");
  EXPECT_EQ(read_bytes(other), "untouched");
}

TEST(Files, ReplaceFileLeavesNothingBehindIfTheProcessIsKilled) {
  const TemporaryDirectory directory;
  const int unnamed = ::open(directory.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (unnamed < 0) GTEST_SKIP() << "the file system has no files without names";
  ::close(unnamed);
  const auto child = ::fork();
  if (child == 0) {
    replace_file(directory / "file", [](const std::filesystem::path& temporary) {
      std::ofstream(temporary) << "content" << std::flush;
      ::kill(::getpid(), SIGKILL);
    });
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Files, WriteStreamNamesTheReasonIfTheWriterThrowsAnotherError) {
  const auto write = [](std::ostream& file) {
    file << std::string(100000, 'x');
    errno = 0;
    throw std::logic_error("another error");
  };
  EXPECT_THAT([&] { write_stream("/dev/full", "name", write); },
              ThrowsMessage<std::runtime_error>(
                  testing::AllOf(HasSubstr("name"), HasSubstr(std::strerror(ENOSPC)))));
  const TemporaryDirectory directory;
  EXPECT_THROW(write_stream(directory / "file", "name", write), std::logic_error);
}

TEST(Files, ThreadsMayReplaceTheSameFile) {
  const TemporaryDirectory directory;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, content = std::string(100000, static_cast<char>('a' + i))] {
      for (int repeat = 0; repeat < 20; ++repeat) replace_file(directory / "file", content);
    });
  }
  for (auto& thread : threads) thread.join();
  const auto content = read_bytes(directory / "file");
  EXPECT_EQ(content, std::string(100000, content.front()));
  const auto entries = std::filesystem::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "a temporary file was left behind";
}

TEST(Files, ReplaceFileLeavesOldContentIfWritingFails) {
  const TemporaryDirectory directory;
  const auto path = directory / "file";
  replace_file(path, "old");
  const auto write_half = [](const std::filesystem::path& temporary) {
    std::ofstream(temporary) << "half";
    throw std::runtime_error("no room");
  };
  EXPECT_THROW(replace_file(path, write_half), std::runtime_error);
  EXPECT_EQ(read_bytes(path), "old");
  const auto entries = std::filesystem::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "a temporary file was left behind";

  replace_file(path, "new");
  EXPECT_EQ(read_bytes(path), "new");
}

TEST(Files, ReplaceFileThrowsIfThePathIsNotWritable) {
  EXPECT_THROW(replace_file("/proc/no/such/place", "content"), std::runtime_error);
}

}  // namespace
}  // namespace attend
