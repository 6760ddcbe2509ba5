// Renders hostile chat templates: each must succeed or throw an InputError with a message, within
// `kMaxMaps` times the time that this machine needs for a map of 300,000 strings. Build with the
// preset asan to find invalid memory accesses. tests/fuzz/chat_template.cpp mutates valid
// templates.
#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/tokenizers/chat_template.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace attend;

constexpr double kMaxMaps = 6;  // on an idle core, the slowest needs less than 3
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMaxMemory = 16384;
#else
constexpr int64_t kMaxMemory = 1024;  // MiB
#endif

/// Returns the time of the processor.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double seconds_of_map() {
  const auto start = std::clock();
  std::map<std::string, int> counts;
  uint32_t x = 1;
  for (int i = 0; i < 300'000; ++i) {
    x = x * 1664525 + 1013904223;
    ++counts[std::to_string(x >> 12)];
  }
  return seconds_since(start);
}

/// Raises SIGPROF after this time of the processor; never if it is 0.
void end_after(double seconds) {
  const auto microseconds = std::lround(1e6 * seconds);
  const itimerval timer{
      .it_interval = {},
      .it_value = {.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

/// Returns the largest amount of memory that the program has used, in MiB.
int64_t max_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

std::string current;  // printed if the program crashes or takes too long

void print(const char* text, std::size_t size) {
  const auto ignored = ::write(STDERR_FILENO, text, size);
  static_cast<void>(ignored);
}

void print_current(int signal) {
  constexpr std::string_view kSlow = "longer than the limit of time: ";
  if (signal == SIGPROF) print(kSlow.data(), kSlow.size());
  print(current.data(), current.size());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

/// Returns `k0=1, k1=1, ...`.
std::string keywords(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", k" : "k") + std::to_string(i) + "=1";
  return text;
}

/// Returns an expression in a loop of many iterations, with the text `x` of 16 MB.
std::string often(const std::string& expression, const std::string& x = "'a' * 16000000") {
  return "{% set x = " + x +
         " %}{% for i in range(99999) %}{% for j in range(9) %}{% set y = " + expression +
         " %}{% endfor %}{% endfor %}";
}

/// Returns templates that take much time or memory, have deep nesting, or have unusual arguments.
const std::vector<std::string>& hostile() {
  static const std::string name(500'000, 'n');
  static const std::vector<std::string> texts{
      "{{ " + repeated("(", 50'000) + " }}",
      "{{ " + repeated("[", 99) + "1" + repeated("]", 99) + " }}",
      "{{ 1" + repeated(" + 1", 20'000) + " }}",
      "{{ x" + repeated(".y", 50'000) + " }}",
      "{{ not " + repeated("not ", 50'000) + "x }}",
      repeated("{% if true %}", 50'000),
      repeated("{% for a in range(99999) %}", 20) + repeated("{% endfor %}", 20),
      "{{ 'x' * 999999999999 }}",
      "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(999) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}"
      "{{ ns.x == [] }}{{ ns.x | tojson }}",
      "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{% set ns.y = [ns] %}{{ ns.y }}",
      "{% for c in ('ab' * 40000) %}{{ 'abc' * 1000 }}{% for d in 'ab' * 40000 %}{% endfor %}{% "
      "endfor %}",
      "{{ 4 is divisibleby(0.5) }}",
      "{{ (-9223372036854775807 - 1) is divisibleby(-1) }}",
      "{{ 'a'.startswith(prefix='a') }}",
      "{{ 'a'.endswith(suffix='a') }}",
      "{{ 'a'.join(iterable=['a']) }}",
      "{{ [1].count(value=1) }}",
      "{{ [1].index(value=1) }}",
      "{{ {'a': 1}.get(key='a') }}",
      // a tuple of 2^40 items as a key
      "{% set ns = namespace(t=(1, 2)) %}{% for i in range(40) %}{% set ns.t = (ns.t, ns.t) %}"
      "{% endfor %}{% set d = {ns.t: 1} %}{{ d['a'] }}{{ [ns.t] | unique | length }}{{ ns.t in d "
      "}}",
      often("x.strip('b' * 16000000)"),
      often("x.strip('a')"),
      often("x.strip('a' * 9999)"),
      often("x | trim('b' ~ x)"),
      often("(' ' ~ x).strip()", "' ' * 15000000"),
      often("x.find('a' * 8000000 ~ 'b')"),
      often("x.find('ab')"),
      often("x.rfind('b' ~ 'a' * 8000000)"),
      often("x.count('a' * 4000 ~ 'b')"),
      often("x.split('a' * 4000 ~ 'b')"),
      often("x.rsplit('b' ~ 'a' * 4000)"),
      often("x.partition('a' * 4000 ~ 'b')"),
      often("x.replace('a' * 4000 ~ 'b', '')"),
      often("x | replace('a' * 4000 ~ 'b', '')"),
      often("('a' * 4000 ~ 'b') in x"),
      often("(big ~ 'b') in x", "'a' * 16000000 %}{% set big = 'a' * 8000000"),
      often("'a'.find(x)"),
      often("x.startswith(x)"),
      often("x | length"),
      often("x[0]"),
      often("x[-1]"),
      often("x[::2]"),
      often("x[1:]"),
      often("x == z", "'a' * 16000000 %}{% set z = 'a' * 16000000"),
      often("x < z", "'a' * 16000000 %}{% set z = 'a' * 16000000"),
      often("z[x]", "'a' * 16000000 %}{% set z = {'a' * 16000000: 1}"),
      often("z[x]", "'a' * 16000000 %}{% set z = namespace({'a' * 16000000: 1})"),
      often("x | int"),
      often("x | float", "'1' * 16000000"),
      often("x is lower"),
      often("x | first"),
      often("x.split('a')"),
      often("x.split()", "'a ' * 8000000"),
      often("x.splitlines()", "'\\n' * 16000000"),
      often("x | indent", "'\\n' * 16000000"),
      often("x | map('upper')"),
      often("strftime_now(x)", "'%c' * 490"),
      often(name),
      "{% set ns = namespace(x=[]) %}" + often("namespace(" + name + "=1)"),
      "{% for i in range(99999) %}{% set n = namespace() %}{% set n." + name +
          " = 1 %}{% endfor %}",
      "{% for " + name + " in range(99999) %}{% for i in range(9) %}{% endfor %}{% endfor %}",
      // missing values that are kept
      "{% set k = 'k' * 16000000 %}{% set ns = namespace(x=[]) %}{% for i in range(2000) %}"
      "{% set ns.x = ns.x + [{}[k], {}['é' * 40]] %}{% endfor %}",
      "{% set x = [{}['k' * 1000000]] * 4900000 %}",
      "{% for i in range(2000) %}{{ {}." + name + " is defined }}{% endfor %}",
      // copies of dicts that are kept
      often("namespace(a=dict(d))", "1 %}{% set d = dict(" + keywords(1000) + ")"),
      "{{ 'a' | map(" + repeated("'map', ", 50'000) + "'upper') }}",
      "{{ 'a' | map(" + repeated("'map', ", 15) + "'upper') }}",
      "{{ 'aa'.replace('a', 'b', -9223372036854775807 - 1) }}",
  };
  return texts;
}

constexpr const char* kMessages = R"([
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": "Hello 😀\n"},
  {"role": "assistant", "content": "Hi", "tool_calls": [
    {"id": "1", "function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]},
  {"role": "user", "content": [{"type": "text", "text": "x"}]}
])";

/// Parses and renders a template. Prints an error that is not an InputError with a message.
class Trial {
 public:
  /// Ends the program after `limit` seconds.
  Trial(const std::string& text, double limit) {
    const auto start = std::clock();
    end_after(limit);
    try {
      const auto chat = ChatTemplate::parse(text, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
      result = "refused the messages";
      check_utf8(chat.render_json(kMessages, {.add_generation_prompt = true}).text);
      result = "rendered";
    } catch (const InputError& error) {
      message = error.what();
      if (message.empty()) fail("an InputError without a message");
    } catch (const std::exception& error) {
      fail(error.what());
    }
    end_after(0);
    seconds = seconds_since(start);
  }

  std::string result = "refused";
  std::string message;
  double seconds = 0;  ///< of the processor
  bool has_failed = false;

 private:
  void fail(const std::string& error) {
    has_failed = true;
    std::cerr << "expected an InputError, found " << error << "\n" << current;
  }
};

}  // namespace

int main() {
  for (const int signal : {SIGPROF, SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) {
    ::signal(signal, print_current);
  }
  const auto limit = kMaxMaps * (seconds_of_map() + seconds_of_map()) / 2;
  int failures = 0;
  double slowest = 0;
  for (std::size_t i = 0; i < hostile().size(); ++i) {
    current = "hostile template " + std::to_string(i) + ": " + hostile()[i].substr(0, 300) + "\n";
    const Trial trial(hostile()[i], limit);
    slowest = std::max(slowest, trial.seconds);
    if (std::getenv("ATTEND_PRINT") != nullptr) {
      std::cerr << trial.seconds << " s, " << max_memory() << " MiB, " << trial.result << ": "
                << trial.message.substr(0, 200) << "\n"
                << current;
    }
    failures += trial.has_failed;
  }
  std::cout << hostile().size() << " hostile templates, slowest: " << slowest << " s of " << limit
            << " s, memory: " << max_memory() << " MiB\n";
  if (max_memory() > kMaxMemory) {
    ++failures;
    std::cerr << "expected at most " << kMaxMemory << " MiB\n";
  }
  return failures == 0 ? 0 : 1;
}
