#include "tokenizers/pre_tokenizers.h"

#include "tokenizers/byte_level.h"
#include "tokenizers/characters.h"
#include "tokenizers/unicode.h"

#include <array>

namespace attend::tokenizers {
namespace pre_tokenizers {
namespace {

/// The pattern of GPT-2.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Emits the pieces of a text, which is given as matches and the texts between them.
template <typename Emit>
class Splitter {
 public:
  Splitter(SplitBehavior behavior, const Emit& emit) : behavior_(behavior), emit_(emit) {}

  void add(Span span, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!is_match) emit_(span);
        return;
      case SplitBehavior::isolated:
        emit_(span);
        return;
      case SplitBehavior::contiguous:
        // The reference compares the first part with a text that is no match.
        merge_if(is_match == was_match_, span);
        break;
      case SplitBehavior::merged_with_previous:
        merge_if(is_match && !was_match_, span);
        break;
      case SplitBehavior::merged_with_next:
        // A match joins the text that follows; of several matches, only the last one.
        merge_if(was_match_ && !is_match, span);
        break;
    }
    was_match_ = is_match;
  }
  void finish() {
    if (has_pending_) emit_(pending_);
  }

 private:
  void merge_if(bool merges, Span span) {
    if (merges && has_pending_) {
      pending_.end = span.end;
      return;
    }
    finish();
    pending_ = span;
    has_pending_ = true;
  }

  SplitBehavior behavior_;
  const Emit& emit_;
  Span pending_{};
  bool has_pending_ = false;
  bool was_match_ = false;
};

/// Splits at characters.
template <typename Predicate>
void split_at(Pieces& pieces, SplitBehavior behavior, const Predicate& is_match) {
  pieces.split_each([&](std::string_view text, const auto& emit) {
    Splitter splitter(behavior, emit);
    std::size_t end = 0;  // of the last match
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = at;
      if (!is_match(next_character(text, at))) continue;
      if (end < begin) splitter.add({end, begin}, false);
      splitter.add({begin, at}, true);
      end = at;
    }
    if (end < text.size()) splitter.add({end, text.size()}, false);
    splitter.finish();
  });
}

/// Splits at the matches of a pattern or a regular expression.
template <typename Matcher>
void split_at_matches(Pieces& pieces, const Matcher& matcher, SplitBehavior behavior, bool invert) {
  pieces.split_each([&](std::string_view text, const auto& emit) {
    Splitter splitter(behavior, emit);
    std::size_t end = 0;
    matcher.for_each_match(text, pieces.budget, [&](Span match) {
      if (end != match.begin) splitter.add({end, match.begin}, invert);
      splitter.add(match, !invert);
      end = match.end;
    });
    if (end != text.size()) splitter.add({end, text.size()}, invert);
    splitter.finish();
  });
}

void apply(const BertPreTokenizer&, Pieces& pieces) {
  pieces.split_each([&](std::string_view text, const auto& emit) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = at;
      const auto character = next_character(text, at);
      const bool is_space = is_whitespace(character);
      if (!is_space && !is_punctuation(character)) continue;
      emit({end, begin});
      if (!is_space) emit({begin, at});
      end = at;
    }
    emit({end, text.size()});
  });
}

void apply(const ByteLevel& options, Pieces& pieces) {
  if (options.add_prefix_space) {
    pieces.rewrite_each(
        [](const Piece&, std::string_view text) { return text.starts_with(' ') ? "" : " "; },
        [](std::string_view text, std::string& result) { result += text; });
  }
  if (options.regex) {
    split_at_matches(pieces, *options.regex, SplitBehavior::isolated, false);
  }
  pieces.rewrite_each(
      [](const Piece&, std::string_view) { return ""; },
      [](std::string_view text, std::string& result) { append_byte_level(result, text); });
}

void apply(const CharDelimiterSplit& options, Pieces& pieces) {
  std::size_t position = 0;
  const auto delimiter = next_character(options.delimiter, position);
  split_at(pieces, SplitBehavior::removed, [&](char32_t c) { return c == delimiter; });
}

void apply(const Digits& options, Pieces& pieces) {
  split_at(pieces, options.individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
           is_numeric);
}

void apply(const FixedLength& options, Pieces& pieces) {
  pieces.split_each([&](std::string_view text, const auto& emit) {
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = at;
      for (std::size_t i = 0; i < options.characters && at < text.size(); ++i) {
        next_character(text, at);
      }
      emit({begin, at});
    }
  });
}

void apply(const Metaspace& options, Pieces& pieces) {
  using Prepend = Metaspace::Prepend;
  const std::string_view replacement = options.replacement;
  const auto prefix = [&](const Piece& piece, std::string_view text) {
    const bool may_prepend = options.prepend == Prepend::always ||
                             (options.prepend == Prepend::first && piece.first_size > 0);
    const bool prepends = may_prepend && !text.starts_with(' ') && !text.starts_with(replacement);
    return prepends ? replacement : std::string_view();
  };
  pieces.rewrite_each(prefix, [&](std::string_view text, std::string& result) {
    for (const char byte : text) {
      if (byte == ' ') {
        result += replacement;
      } else {
        result += byte;
      }
    }
  });
  if (!options.split) return;
  pieces.split_each([&](std::string_view text, const auto& emit) {
    std::size_t begin = 0;
    for (auto at = text.find(replacement); at != text.npos;
         at = text.find(replacement, at + replacement.size())) {
      emit({begin, at});
      begin = at;
    }
    emit({begin, text.size()});
  });
}

void apply(const Punctuation& options, Pieces& pieces) {
  split_at(pieces, options.behavior, is_punctuation);
}

void apply(const Split& options, Pieces& pieces) {
  split_at_matches(pieces, options.pattern, options.behavior, options.invert);
}

void apply(const Whitespace&, Pieces& pieces) {
  enum class Kind { space, word, other };
  pieces.split_each([&](std::string_view text, const auto& emit) {
    std::size_t begin = 0;
    auto kind = Kind::space;
    for (std::size_t at = 0; at < text.size();) {
      const auto from = at;
      const auto character = next_character(text, at);
      const auto next = is_word(character)         ? Kind::word
                        : is_whitespace(character) ? Kind::space
                                                   : Kind::other;
      if (next == kind) continue;
      if (kind != Kind::space) emit({begin, from});
      begin = from;
      kind = next;
    }
    if (kind != Kind::space) emit({begin, text.size()});
  });
}

void apply(const WhitespaceSplit&, Pieces& pieces) {
  split_at(pieces, SplitBehavior::removed, is_whitespace);
}

SplitBehavior parse_behavior(JsonFields& fields) {
  return static_cast<SplitBehavior>(fields.choice(
      "behavior", {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

PreTokenizer parse_byte_level(JsonFields& fields) {
  fields.ignore({"trim_offsets"});
  ByteLevel part{fields.boolean("add_prefix_space"), std::nullopt};
  if (fields.boolean("use_regex", true)) part.regex.emplace(kByteLevelPattern);
  return part;
}

PreTokenizer parse_metaspace(JsonFields& fields) {
  using Prepend = Metaspace::Prepend;
  fields.ignore({"str_rep", "prepend_scheme"});
  Metaspace part{one_character(fields, "replacement"), Prepend::always,
                 fields.boolean("split", true)};
  if (fields.has("prepend_scheme")) {
    part.prepend =
        static_cast<Prepend>(fields.choice("prepend_scheme", {"first", "never", "always"}));
  }
  // The older key `add_prefix_space`.
  if (!fields.boolean("add_prefix_space", true)) {
    if (fields.has("prepend_scheme") && part.prepend != Prepend::never) {
      fields.throw_unexpected("prepend_scheme", "'never', because `add_prefix_space` is false");
    }
    part.prepend = Prepend::never;
  }
  return part;
}

PreTokenizer parse_split(JsonFields& fields) {
  return Split{Pattern(fields), parse_behavior(fields), fields.boolean("invert")};
}

const std::array kTypes{
    PartType<PreTokenizer>{"BertPreTokenizer",
                           [](JsonFields&) -> PreTokenizer { return BertPreTokenizer{}; }},
    PartType<PreTokenizer>{"ByteLevel", parse_byte_level},
    PartType<PreTokenizer>{"CharDelimiterSplit",
                           [](JsonFields& fields) -> PreTokenizer {
                             return CharDelimiterSplit{one_character(fields, "delimiter")};
                           }},
    PartType<PreTokenizer>{"Digits",
                           [](JsonFields& fields) -> PreTokenizer {
                             return Digits{fields.boolean("individual_digits")};
                           }},
    PartType<PreTokenizer>{"FixedLength",
                           [](JsonFields& fields) -> PreTokenizer {
                             const auto length = fields.integer("length", 1, INT32_MAX, 5);
                             return FixedLength{static_cast<std::size_t>(length)};
                           }},
    PartType<PreTokenizer>{"Metaspace", parse_metaspace},
    PartType<PreTokenizer>{"Punctuation",
                           [](JsonFields& fields) -> PreTokenizer {
                             fields.ignore({"behavior"});
                             return Punctuation{fields.has("behavior") ? parse_behavior(fields)
                                                                       : SplitBehavior::isolated};
                           }},
    PartType<PreTokenizer>{"Split", parse_split},
    PartType<PreTokenizer>{"Whitespace", [](JsonFields&) -> PreTokenizer { return Whitespace{}; }},
    PartType<PreTokenizer>{"WhitespaceSplit",
                           [](JsonFields&) -> PreTokenizer { return WhitespaceSplit{}; }},
};

}  // namespace
}  // namespace pre_tokenizers

std::vector<PreTokenizer> parse_pre_tokenizers(JsonFields& root) {
  return parts_under<PreTokenizer>("pre_tokenizer", root, pre_tokenizers::kTypes, "pretokenizers");
}

void pre_tokenize(const std::vector<PreTokenizer>& parts, Pieces& pieces) {
  const auto original_bytes = pieces.text.size();
  for (const auto& part : parts) {
    std::visit([&](const auto& options) { pre_tokenizers::apply(options, pieces); }, part);
    check_growth("pre_tokenizer", original_bytes, pieces.text.size());
  }
}

}  // namespace attend::tokenizers
