#include "train/senses_grammar.h"

#include <array>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

namespace attend::train {
namespace {

using Words = std::vector<std::string>;

struct Sense {
  std::string word;
  std::string meaning;
  Words things;   // nouns of the sense
  Words actions;  // verbs of the sense
};

/// All senses. The two senses of a word are adjacent.
const std::vector<Sense>& senses() {
  static const std::vector<Sense> all{
      {"bank", "shore", {"river", "boat", "mud", "stream", "fish"}, {"drifted", "flowed"}},
      {"bank", "money", {"loan", "clerk", "cash", "account", "coin"}, {"paid", "saved"}},
      {"bat", "animal", {"cave", "wing", "moth", "night", "owl"}, {"flew", "hung"}},
      {"bat", "club", {"pitcher", "ball", "player", "glove", "team"}, {"threw", "scored"}},
      {"spring", "season", {"flower", "rain", "blossom", "april", "garden"}, {"bloomed", "grew"}},
      {"spring", "coil", {"wire", "steel", "lever", "clock", "screw"}, {"snapped", "bent"}},
      {"crane", "bird", {"nest", "feather", "marsh", "wing", "fish"}, {"flew", "hatched"}},
      {"crane", "machine", {"cargo", "steel", "tower", "hook", "brick"}, {"hoisted", "bent"}},
      {"match", "flame", {"candle", "smoke", "fire", "lamp", "stove"}, {"burned", "glowed"}},
      {"match", "game", {"goal", "player", "team", "referee", "ball"}, {"scored", "won"}},
      {"bark", "sound", {"dog", "puppy", "leash", "collar", "kennel"}, {"growled", "ran"}},
      {"bark", "tree", {"oak", "trunk", "branch", "leaf", "root"}, {"grew", "fell"}},
      {"seal", "animal", {"ice", "fish", "whale", "flipper", "snow"}, {"swam", "dived"}},
      {"seal", "stamp", {"letter", "wax", "envelope", "king", "ink"}, {"wrote", "signed"}},
      {"palm", "hand", {"finger", "wrist", "skin", "thumb", "glove"}, {"waved", "itched"}},
      {"palm", "tree", {"beach", "coconut", "island", "leaf", "root"}, {"grew", "swayed"}},
  };
  return all;
}

// Sentences with placeholders. W: the ambiguous word. C, D: two nouns of one of its senses. A: a
// verb of the same sense. N, J, V: a noun, an adjective and a verb that do not depend on the sense.
const std::array<const char*, 10> kPatterns{
    "the J C A near the W",
    "the W was near the C and the J D",
    "we V the W and then the C",
    "they V the J C before the W",
    "the W and one C by the J N",
    "my N V one W with the C",
    "by the N the C A and the W too",
    "the J W that A was by the N",
    "in the N we V the J W and the C",
    "the C A while we V the W",
};
const Words kNeutralNouns{"house",   "road",   "window", "table",
                          "morning", "friend", "story",  "corner"};
const Words kNeutralAdjectives{"old", "new", "small", "large", "red", "quiet", "strange", "plain"};
const Words kNeutralVerbs{"saw",     "liked",  "found", "remembered",
                          "watched", "forgot", "drew",  "named"};

constexpr int kTrainingPairs = 400;  // pairs per ambiguous word; a pair has one sentence per sense
constexpr int kValidationPairs = 50;

class Writer {
 public:
  /// Returns a random pattern in which each letter N, J or V is replaced by a neutral noun,
  /// adjective or verb.
  std::string frame() {
    std::string text;
    for (const char* slot = pick(kPatterns); *slot != '\0'; ++slot) {
      switch (*slot) {
        case 'N':
          text += pick(kNeutralNouns);
          break;
        case 'J':
          text += pick(kNeutralAdjectives);
          break;
        case 'V':
          text += pick(kNeutralVerbs);
          break;
        default:
          text += *slot;
      }
    }
    return text;
  }

  SenseSentence fill(const std::string& frame, const Sense& sense) {
    std::string words;
    std::string first_thing;
    for (const char slot : frame) {
      switch (slot) {
        case 'W':
          words += sense.word;
          break;
        case 'C':
          words += first_thing = pick(sense.things);
          break;
        case 'D':
          words += pick_other(sense.things, first_thing);
          break;
        case 'A':
          words += pick(sense.actions);
          break;
        default:
          words += slot;
      }
    }
    return {words + " . " + sense.word, sense.word + "=" + sense.meaning};
  }

 private:
  template <typename List>
  typename List::value_type pick(const List& list) {
    return list[random_() % list.size()];
  }
  std::string pick_other(const Words& list, const std::string& not_this) {
    while (true) {
      auto word = pick(list);
      if (word != not_this) return word;
    }
  }

  std::mt19937_64 random_{20170612};
};

void add_tokens(const SenseSentence& sentence, std::set<std::string>& tokens) {
  std::istringstream words(sentence.words);
  tokens.insert(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  tokens.insert(sentence.sense);
}

}  // namespace

SenseSentences make_sense_sentences() {
  SenseSentences result;
  std::set<std::string> tokens;
  Writer writer;
  for (std::size_t i = 0; i < senses().size(); i += 2) {
    std::set<std::string> seen;
    for (int pairs = 0; pairs < kValidationPairs + kTrainingPairs;) {
      const auto frame = writer.frame();
      const auto one = writer.fill(frame, senses()[i]);
      const auto other = writer.fill(frame, senses()[i + 1]);
      if (seen.contains(one.words) || seen.contains(other.words)) continue;
      auto& part = pairs < kValidationPairs ? result.validation : result.training;
      for (const auto& sentence : {one, other}) {
        seen.insert(sentence.words);
        part.push_back(sentence);
        add_tokens(sentence, tokens);
      }
      ++pairs;
    }
  }
  result.tokens.assign(tokens.begin(), tokens.end());
  return result;
}

}  // namespace attend::train
