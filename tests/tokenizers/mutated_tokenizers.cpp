// Mutates valid tokenizer.json files at random, reads them, and encodes and decodes a text with
// those that are still valid. Each must succeed or throw an InputError with a message, within 10
// seconds. Build with the preset asan to find invalid memory accesses.
//
// The environment variable ATTEND_MUTATIONS sets the number of mutated files, ATTEND_TEST_SEED the
// seed, which the program prints.
#include "attend/input_error.h"
#include "attend/tokenizers/text_tokenizer.h"
#include "mutated_files/mutations.h"
#include "tokenizers/small_tokenizers.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

namespace {

using namespace attend;

constexpr unsigned kMaxSeconds = 10;

std::string current;  // printed if the program crashes or takes too long

void print_current(int signal) {
  const auto ignored = ::write(STDERR_FILENO, current.data(), current.size());
  static_cast<void>(ignored);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// Replaces a string by a text that is long, or slow as a regular expression.
std::string hostile_text(Random& random) {
  switch (random() % 5) {
    case 0:
      return std::string(100'000, '(');
    case 1:
      return "(a+)+$|(a|a)*b";
    case 2:
      return "((a{1000}){1000}){1000}";
    case 3:
      return "(?<n>a\\g<n>*)*";
    default:
      return std::string(70'000, 'a');
  }
}

void replace_a_string(nlohmann::json& value, Random& random) {
  while (value.is_structured() && !value.empty()) {
    auto child = value.begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random() % value.size()));
    if (child->is_string()) *child = hostile_text(random);
    if (!child->is_structured()) return;
    nlohmann::json& next = *child;
    return replace_a_string(next, random);
  }
}

std::string mutated(Random& random) {
  static const auto valid = small_tokenizers();
  auto json = valid[random() % valid.size()];
  switch (random() % 4) {
    case 0:
      return mutated_bytes(json.dump(), random);
    case 1:
      replace_a_string(json, random);
      return json.dump();
    default:
      return mutated_json(std::move(json), random)
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void use(const TextTokenizer& tokenizer) {
  static const std::string text = "ab <X> abc  a\xC3\xA9 <Y>e\u0301 \xE2\x82 １２３ don't. AB " +
                                  std::string(2000, 'a') + std::string(500, ' ') + "c";
  auto ids = tokenizer.encode(text).ids;
  const auto pair = tokenizer.encode_pair("a b", "ab c", {.add_special_tokens = false}).ids;
  ids.insert(ids.end(), pair.begin(), pair.end());
  tokenizer.decode(ids);
  ids.resize(std::min<std::size_t>(ids.size(), 50));
  StreamingDecoder decoder(tokenizer);
  for (const auto id : ids) decoder.step(id);
  decoder.finish();
}

}  // namespace

int main() {
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) {
    ::signal(signal, print_current);
  }
  const auto number_in = [](const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
  };
  const auto count = number_in("ATTEND_MUTATIONS", 500);
  const auto seed = number_in("ATTEND_TEST_SEED", std::random_device{}());
  std::map<std::string, int> counts;
  double slowest = 0;
  int failures = 0;
  for (uint64_t i = 0; i < count; ++i) {
    current = "repeat with ATTEND_MUTATIONS=1 ATTEND_TEST_SEED=" + std::to_string(seed + i) + "\n";
    Random random(seed + i);
    const auto text = mutated(random);
    if (std::getenv("ATTEND_PRINT") != nullptr) std::cerr << text << "\n";
    const auto start = std::chrono::steady_clock::now();
    ::alarm(kMaxSeconds);
    std::string result = "refused";
    try {
      const auto tokenizer = TextTokenizer::parse(text);
      result = "refused a text";
      use(tokenizer);
      result = "read";
    } catch (const InputError& error) {
      if (*error.what() == '\0') {
        ++failures;
        std::cerr << "an InputError without a message\n" << current;
      }
    } catch (const std::exception& error) {
      ++failures;
      std::cerr << "expected an InputError, found " << error.what() << "\n" << current;
    }
    ::alarm(0);
    ++counts[result];
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, seconds.count());
  }
  std::cout << count << " mutated files from seed " << seed;
  for (const auto& [result, number] : counts) std::cout << ", " << result << ": " << number;
  std::cout << ", slowest: " << slowest << " s\n";
  return failures == 0 ? 0 : 1;
}
