#include "attend/train/task.h"
#include "support/small_runs.h"
#include "support/task_examples.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace attend::train {
namespace {

/// Solves a question independently of the task's code.
struct Solver {
  const char* task;
  std::string (*solve)(const std::string& prompt);
};

std::string before_equals(const std::string& prompt) {
  return prompt.substr(0, prompt.find('='));
}

std::string repeated(const std::string& prompt) {
  return before_equals(prompt) + ".";
}

std::string reversed(const std::string& prompt) {
  std::string answer = ".";
  for (const char letter : before_equals(prompt)) answer.insert(answer.begin(), letter);
  return answer;
}

std::string sorted(const std::string& prompt) {
  std::string answer;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    answer.append(static_cast<std::size_t>(std::ranges::count(prompt, letter)), letter);
  }
  return answer + ".";
}

/// Adds digit by digit. The answer begins with the last digit of the sum and has one digit more
/// than the longer number.
std::string added(const std::string& prompt) {
  const auto plus = prompt.find('+');
  const auto one = prompt.substr(0, plus);
  const auto other = before_equals(prompt.substr(plus + 1));
  std::string answer;
  int carry = 0;
  for (std::size_t i = 0; i <= std::max(one.size(), other.size()); ++i) {
    const auto digit = [&](const std::string& number) {
      return i < number.size() ? number[number.size() - 1 - i] - '0' : 0;
    };
    const int sum = digit(one) + digit(other) + carry;
    answer += static_cast<char>('0' + sum % 10);
    carry = sum / 10;
  }
  return answer + ".";
}

std::string added_modulo_67(const std::string& prompt) {
  std::istringstream words(prompt);
  int a = 0;
  int b = 0;
  std::string plus;
  words >> a >> plus >> b;
  int sum = a;
  for (int i = 0; i < b; ++i) sum = sum == 66 ? 0 : sum + 1;
  return std::to_string(sum);
}

std::string recalled(const std::string& prompt) {
  const char asked = prompt.at(prompt.find('?') + 1);
  return prompt.substr(prompt.find(asked) + 1, 1);
}

/// Removes matching pairs until none are left.
std::string judged(const std::string& prompt) {
  std::string rest = prompt;
  for (std::size_t length = 0; length != rest.size();) {
    length = rest.size();
    for (const auto* pair : {"()", "[]"}) {
      const auto place = rest.find(pair);
      if (place != std::string::npos) rest.erase(place, 2);
    }
  }
  return rest.empty() ? "balanced" : "unbalanced";
}

/// Reads an English phrase from `words`, up to and including its noun, and translates it into the
/// toy language.
std::string translated_phrase(std::istringstream& words) {
  static const std::map<std::string, std::string> nouns{
      {"cat", "miro"},  {"dog", "bako"},   {"bird", "fila"},  {"fish", "suna"},
      {"tree", "lodo"}, {"house", "kesa"}, {"river", "vuna"}, {"stone", "pero"}};
  static const std::map<std::string, std::string> adjectives{{"red", "rub"},    {"small", "min"},
                                                             {"old", "vet"},    {"quiet", "kal"},
                                                             {"bright", "luz"}, {"tall", "alt"}};
  std::string word;
  words >> word;  // the article
  EXPECT_EQ(word, "the");
  std::vector<std::string> described;
  while (words >> word && adjectives.contains(word)) described.push_back(adjectives.at(word));
  const auto noun = nouns.at(word);
  std::string phrase = std::string("l") + noun.back() + " " + noun;
  for (const auto& adjective : described) phrase += " " + adjective + noun.back();
  return phrase;
}

std::string translated(const std::string& prompt) {
  static const std::map<std::string, std::string> verbs{{"sees", "vidi"},    {"finds", "trovi"},
                                                        {"follows", "segi"}, {"loves", "ami"},
                                                        {"hears", "audi"},   {"fears", "timi"}};
  std::istringstream words(prompt);
  const auto subject = translated_phrase(words);
  std::string verb;
  words >> verb;
  const bool negated = verb == "never";
  if (negated) words >> verb;
  const auto object = translated_phrase(words);
  return subject + " " + object + (negated ? " ne " : " ") + verbs.at(verb) +
         (negated ? " pa" : "");
}

const std::vector<Solver> kSolvers{{"copy", repeated},
                                   {"reverse", reversed},
                                   {"sort", sorted},
                                   {"addition", added},
                                   {"modular-arithmetic", added_modulo_67},
                                   {"associative-recall", recalled},
                                   {"balanced-brackets", judged},
                                   {"translation", translated}};

TEST(TaskAnswers, AreCorrectInTrainingAndValidationData) {
  for (const auto& solver : kSolvers) {
    const auto task = make_task(find_task(solver.task).defaults);
    Sampler sampler(5);
    std::vector<Batch> batches = task->validation_batches(200);
    batches.resize(2);
    batches.push_back(task->training_batch(500, sampler));
    for (const auto& batch : batches) {
      for (const auto& example : examples_in(batch, *task)) {
        ASSERT_EQ(example.answer, solver.solve(example.prompt)) << example.prompt;
      }
    }
    for (const auto& example : task->samples()) {
      EXPECT_EQ(example.answer, solver.solve(example.prompt)) << example.prompt;
    }
  }
}

TEST(TaskAnswers, EndsAreFoundForAnswersWithoutAnEndToken) {
  for (const auto& info : tasks()) {
    const bool is_generated = model_kind(info.defaults.model) == model_kind(LanguageModelConfig());
    if (!is_generated || info.reads_file() || std::string(info.name) == "senses") continue;
    ASSERT_NE(info.ends_with_answer != nullptr, *info.eos_token != '\0') << info.name;
    if (info.ends_with_answer == nullptr) continue;
    const auto task = make_task(info.defaults);
    const auto& tokenizer = task->tokenizer();
    for (const auto& example : examples_in(task->validation_batches(200).front(), *task)) {
      auto tokens = tokenizer.encode(example.prompt);
      for (const auto token : tokenizer.encode(example.answer)) {
        EXPECT_FALSE(info.ends_with_answer(tokenizer.decode(tokens))) << example.prompt;
        tokens.push_back(token);
      }
      EXPECT_TRUE(info.ends_with_answer(tokenizer.decode(tokens))) << example.prompt;
    }
  }
  const auto ends = find_task("senses").ends_with_answer;
  EXPECT_FALSE(ends("the old clerk paid near the bank . bank"));
  EXPECT_TRUE(ends("the old clerk paid near the bank . bank bank=money"));
}

TEST(TaskAnswers, EveryTaskWithPromptsHasASolver) {
  EXPECT_EQ(kSolvers.size() + 6, tasks().size())
      << "all tasks except senses and those that read a file must have a solver";
}

TEST(TaskAnswers, ValidationBracketsAreLongerThanTrainingBrackets) {
  const auto task = make_task(find_task("balanced-brackets").defaults);
  const auto longest =
      static_cast<std::size_t>(find_task("balanced-brackets").defaults.data.length);
  Sampler sampler(5);
  for (const auto& example : examples_in(task->training_batch(500, sampler), *task)) {
    EXPECT_LE(example.prompt.size(), longest);
  }
  for (const auto& example : examples_in(task->validation_batches(500).front(), *task)) {
    EXPECT_GT(example.prompt.size(), longest);
    EXPECT_LE(example.prompt.size(), 2 * longest);
  }
}

}  // namespace
}  // namespace attend::train
