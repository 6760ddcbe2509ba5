#include "texts/chat.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "terminal/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <system_error>
#include <utility>
#include <vector>

namespace attend::app {
namespace {

volatile std::sig_atomic_t g_is_interrupted = 0;
/// The handler writes to this pipe, which ends a wait for input in any thread, even if the signal
/// arrives just before the wait begins.
std::array<int, 2> g_interrupts{-1, -1};

/// During its lifetime, SIGINT sets `g_is_interrupted` and ends a wait for input, but not the
/// process. An ignored signal stays ignored.
class InterruptGuard {
 public:
  explicit InterruptGuard(bool is_enabled) : is_enabled_(is_enabled) {
    if (!is_enabled_) return;
    ::sigaction(SIGINT, nullptr, &before_);
    is_enabled_ = before_.sa_handler != SIG_IGN;
    if (!is_enabled_) return;
    if (::pipe2(g_interrupts.data(), O_NONBLOCK | O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe2");
    struct sigaction action {};
    action.sa_handler = [](int) {
      g_is_interrupted = 1;
      const int error = errno;
      [[maybe_unused]] const auto written = ::write(g_interrupts[1], "", 1);
      errno = error;
    };
    action.sa_flags = SA_RESTART;  // else a write to a terminal that is stopped or full would fail
    ::sigaction(SIGINT, &action, nullptr);
  }
  ~InterruptGuard() {
    if (!is_enabled_) return;
    ::sigaction(SIGINT, &before_, nullptr);
    for (int& file : g_interrupts) ::close(std::exchange(file, -1));
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  bool is_enabled_;
  struct sigaction before_ {};
};

/// Forgets the interrupts until now.
void clear_interrupts() {
  g_is_interrupted = 0;
  std::array<char, 64> bytes{};
  while (::read(g_interrupts[0], bytes.data(), bytes.size()) > 0) {
  }
}

/// Waits until standard input has a line or has ended, or until SIGINT.
void wait_for_input() {
  std::array<pollfd, 2> files{{{STDIN_FILENO, POLLIN, 0}, {g_interrupts[0], POLLIN, 0}}};
  while (g_is_interrupted == 0 && ::poll(files.data(), files.size(), -1) < 0 && errno == EINTR) {
  }
}

/// Returns the number of messages of the oldest turn after the system message: a message of the
/// user, and those that follow it.
std::ptrdiff_t oldest_turn(const std::vector<ChatMessage>& messages, std::ptrdiff_t begin) {
  auto end = begin + 1;
  while (end < std::ssize(messages) && messages[static_cast<std::size_t>(end)].role != "user")
    ++end;
  return end - begin;
}

class Chat {
 public:
  Chat(const TextModel& text, const ChatArguments& arguments, const ChatAnswer& answer)
      : text_(text), arguments_(arguments), answer_(answer), is_terminal_(input_is_terminal()) {
    reset();
  }

  void run() {
    const InterruptGuard guard(is_terminal_);  // of a pipe, SIGINT ends the program
    while (true) {
      clear_interrupts();  // that of an answer, also if an error has followed
      if (is_terminal_) {
        print_now("> ");
        wait_for_input();
      }
      std::string line;
      const bool has_line =
          g_is_interrupted == 0 &&
          read_line(std::cin, line, "standard input", text_limit(arguments_.max_line_bytes));
      if (g_is_interrupted != 0) {
        write_error("\n/exit or Ctrl-D ends the chat\n");
        continue;
      }
      if (!has_line) break;
      if (line.ends_with('\r')) line.pop_back();
      if (line == "/exit") return;
      if (line == "/reset") {
        reset();
      } else if (line.starts_with('/')) {
        report(fmt::format("unknown command '{}', expected /reset or /exit", printable(line)));
      } else if (!line.empty()) {
        answer(line);
      }
    }
    if (is_terminal_) print_now("\n");
  }

 private:
  void reset() {
    messages_.clear();
    if (arguments_.system) messages_.push_back({"system", *arguments_.system});
  }

  /// Reports an error in a line: on a terminal, the user can write another one.
  void report(const std::string& message) const {
    if (!is_terminal_) throw InputError("standard input: " + message);
    write_error(message + "\n");
  }

  void answer(const std::string& line) {
    const auto before = messages_;
    messages_.push_back({"user", line});
    try {
      const auto prompt = make_prompt();
      messages_.push_back(
          {"assistant", answer_(prompt, turn_++, [] { return g_is_interrupted != 0; })});
      print_now("\n");
    } catch (const InputError& error) {
      messages_ = before;
      report(error.what());
    }
  }

  /// Returns the tokens of the conversation. Removes the oldest turns if there is no room for the
  /// answer.
  TextModel::Tokens make_prompt() {
    const auto max_seq_len = std::get<LanguageModel>(text_.model)->config.max_seq_len;
    const auto limit = max_seq_len - std::min(arguments_.max_new_tokens, max_seq_len / 4);
    const std::ptrdiff_t begin = arguments_.system ? 1 : 0;
    while (true) {
      auto tokens = text_.encode_chat(
          text_.chat_template->render(messages_, {.add_generation_prompt = true}));
      if (std::ssize(tokens) <= limit) return tokens;
      const auto count = oldest_turn(messages_, begin);
      if (begin + count == std::ssize(messages_)) {
        throw InputError(fmt::format(
            "the message has {} tokens with the system message, expected at most {} of the {} "
            "tokens of the model, so that there is room for the answer",
            tokens.size(), limit, max_seq_len));
      }
      messages_.erase(messages_.begin() + begin, messages_.begin() + begin + count);
      write_error("the oldest turn no longer fits and is forgotten\n");
    }
  }

  const TextModel& text_;
  const ChatArguments& arguments_;
  const ChatAnswer& answer_;
  bool is_terminal_;
  std::vector<ChatMessage> messages_;
  uint64_t turn_ = 0;
};

/// Returns the special token with which the text begins, if there is one.
std::optional<int64_t> first_special_token(const TextModel& text, const std::string& rendered) {
  const auto tokens = text.encode_chat({.text = rendered, .generated = {}});
  if (tokens.empty()) return std::nullopt;
  const auto decoder = text.decoder({});  // omits special tokens
  const auto shown = decoder(tokens.front()) + decoder(std::nullopt);
  return shown.empty() ? std::optional(tokens.front()) : std::nullopt;
}

}  // namespace

TextModel::Tokens end_of_turn_tokens(const TextModel& text, const std::string& directory) {
  if (!text.chat_template) {
    if (is_pretrained(directory)) load_chat_template(directory);  // throws if it is not supported
    throw InputError(
        fmt::format("{}: the model has no chat template, which is in chat_template.jinja or "
                    "tokenizer_config.json of a published folder; it can continue a text: pass "
                    "--prompt instead of --chat",
                    directory));
  }
  auto tokens = text.eos_tokens;
  const auto add = [&](const std::string& rendered) {
    const auto token = first_special_token(text, rendered);
    if (token && std::ranges::count(tokens, *token) == 0) tokens.push_back(*token);
  };
  const auto& special = text.chat_template->special_tokens();
  if (const auto found = special.find("eos_token"); found != special.end()) add(found->second);
  const std::string answer = "answer";
  const auto chat = text.chat_template->render({{"user", "question"}, {"assistant", answer}}).text;
  if (const auto found = chat.rfind(answer); found != chat.npos)
    add(chat.substr(found + answer.size()));
  return tokens;
}

void hold_chat(const TextModel& text, const ChatArguments& arguments, const ChatAnswer& answer) {
  Chat(text, arguments, answer).run();
}

}  // namespace attend::app
