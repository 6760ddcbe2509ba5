#include "tokenizers/normalizers.h"

#include "attend/input_error.h"
#include "tokenizers/byte_level.h"
#include "tokenizers/characters.h"

#include <algorithm>
#include <array>

namespace attend::tokenizers {
namespace normalizers {
namespace {

bool is_chinese(char32_t c) {
  const auto between = [&](char32_t first, char32_t last) { return c >= first && c <= last; };
  return between(0x4E00, 0x9FFF) || between(0x3400, 0x4DBF) || between(0x20000, 0x2A6DF) ||
         between(0x2A700, 0x2B73F) || between(0x2B740, 0x2B81F) || between(0x2B920, 0x2CEAF) ||
         between(0xF900, 0xFAFF) || between(0x2F800, 0x2FA1F);
}

bool is_removed_by_nmt(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

bool is_blank_for_nmt(char32_t c) {
  return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

/// Replaces the text by what `change(character, result)` appends for each character.
template <typename Change>
void change_each(NormalizedText& text, const Change& change) {
  std::string result;
  result.reserve(text.text.size() + 16);
  std::size_t first_size = 0;
  for (std::size_t at = 0; at < text.text.size();) {
    change(next_character(text.text, at), result);
    if (at <= text.first_size) first_size = result.size();
  }
  text.first_size = first_size;
  text.text.swap(result);
}

/// Replaces the text by `normalize(text)`, which may join and reorder characters.
template <typename Normalize>
void change_whole(NormalizedText& text, const Normalize& normalize) {
  std::string result = normalize(text.text);
  std::size_t first_size = 0;
  if (text.first_size > 0 && !result.empty()) {
    const auto first = normalize(std::string_view(text.text).substr(0, text.first_size));
    std::size_t at = 0;
    std::size_t next = 0;
    while (at < first.size() && next < result.size() &&
           next_character(first, at) == next_character(result, next)) {
      first_size = next;
    }
    // The reference assigns a joined character to the first of its parts, the first character of
    // the new text to that of the old one, and a mark that moved forward to its own place.
    next = first_size;
    if (next < result.size()) {
      const bool is_mark = is_combining_mark(next_character(result, next));
      if (first_size == 0 || (first_size < first.size() && !is_mark)) first_size = next;
    }
  }
  text.first_size = first_size;
  text.text.swap(result);
}

template <typename Predicate>
void remove_if(NormalizedText& text, const Predicate& is_removed) {
  change_each(text, [&](char32_t c, std::string& result) {
    if (!is_removed(c)) append_character(result, c);
  });
}

void lowercase(NormalizedText& text) {
  change_each(text, [](char32_t c, std::string& result) { append_lowercase(result, c); });
}

void apply(const BertNormalizer& options, NormalizedText& text) {
  if (options.clean_text || options.handle_chinese_chars) {
    change_each(text, [&](char32_t c, std::string& result) {
      if (options.clean_text) {
        const bool is_space = c == '\t' || c == '\n' || c == '\r';
        if (c == 0 || c == 0xFFFD || (!is_space && is_control(c))) return;
        if (is_whitespace(c)) c = ' ';
      }
      if (options.handle_chinese_chars && is_chinese(c)) {
        result += ' ';
        append_character(result, c);
        result += ' ';
      } else {
        append_character(result, c);
      }
    });
  }
  if (options.strip_accents) {
    change_whole(text, [](std::string_view part) { return normalized(part, NormalForm::nfd); });
    remove_if(text, is_nonspacing_mark);
  }
  if (options.lowercase) lowercase(text);
}

void apply(const Strip& options, NormalizedText& text) {
  std::size_t begin = 0;
  auto end = text.text.size();
  while (options.left && begin < end) {
    auto next = begin;
    if (!is_whitespace(next_character(text.text, next))) break;
    begin = next;
  }
  while (options.right && begin < end) {
    const auto last = previous_position(text.text, end);
    auto position = last;
    if (!is_whitespace(next_character(text.text, position))) break;
    end = last;
  }
  text.first_size = first_size_in({begin, end}, text.first_size);
  text.text = text.text.substr(begin, end - begin);
}

void apply(const StripAccents&, NormalizedText& text) {
  remove_if(text, is_combining_mark);
}

void apply(const UnicodeForm& options, NormalizedText& text) {
  change_whole(text, [&](std::string_view part) { return normalized(part, options.form); });
}

void apply(const Lowercase&, NormalizedText& text) {
  lowercase(text);
}

void apply(const Nmt&, NormalizedText& text) {
  change_each(text, [](char32_t c, std::string& result) {
    if (!is_removed_by_nmt(c)) append_character(result, is_blank_for_nmt(c) ? U' ' : c);
  });
}

void apply(const Precompiled& options, NormalizedText& text) {
  change_whole(text, [&](std::string_view part) { return options.charsmap.normalized(part); });
}

void apply(const Replace& options, NormalizedText& text) {
  if (text.first_size > 0) {
    // The reference assigns the new text to the last character of the match.
    auto first_size = text.first_size;
    options.pattern.for_each_match(text.text, text.budget, [&](Span match) {
      if (match.end <= text.first_size) {
        first_size += options.content.size() - (match.end - match.begin);
      } else if (match.begin < text.first_size) {
        first_size -= text.first_size - match.begin;
      }
    });
    text.first_size = first_size;
  }
  text.text = options.pattern.replaced(text.text, options.content, text.budget);
}

void apply(const Prepend& options, NormalizedText& text) {
  if (text.text.empty()) return;
  text.text.insert(0, options.content);
  if (text.first_size > 0) text.first_size += options.content.size();
}

void apply(const ByteLevel&, NormalizedText& text) {
  std::string result;
  append_byte_level(result, std::string_view(text.text).substr(0, text.first_size));
  const auto first_size = result.size();
  append_byte_level(result, std::string_view(text.text).substr(text.first_size));
  text.first_size = first_size;
  text.text.swap(result);
}

template <NormalForm form>
Normalizer parse_form(JsonFields&) {
  return UnicodeForm{form};
}

const std::array kTypes{
    PartType<Normalizer>{"BertNormalizer",
                         [](JsonFields& fields) -> Normalizer {
                           const bool lowercase = fields.boolean("lowercase");
                           return BertNormalizer{
                               fields.boolean("clean_text"), fields.boolean("handle_chinese_chars"),
                               fields.boolean("strip_accents", lowercase), lowercase};
                         }},
    PartType<Normalizer>{
        "Strip",
        [](JsonFields& fields) -> Normalizer {
          return Strip{fields.boolean("strip_left"), fields.boolean("strip_right")};
        }},
    PartType<Normalizer>{"StripAccents", [](JsonFields&) -> Normalizer { return StripAccents{}; }},
    PartType<Normalizer>{"NFC", parse_form<NormalForm::nfc>},
    PartType<Normalizer>{"NFD", parse_form<NormalForm::nfd>},
    PartType<Normalizer>{"NFKC", parse_form<NormalForm::nfkc>},
    PartType<Normalizer>{"NFKD", parse_form<NormalForm::nfkd>},
    PartType<Normalizer>{"Lowercase", [](JsonFields&) -> Normalizer { return Lowercase{}; }},
    PartType<Normalizer>{"Nmt", [](JsonFields&) -> Normalizer { return Nmt{}; }},
    PartType<Normalizer>{"Precompiled",
                         [](JsonFields& fields) -> Normalizer {
                           const auto text = fields.string("precompiled_charsmap");
                           return with_source(
                               "`" + fields.path_of("precompiled_charsmap") + "`",
                               [&] { return Precompiled{PrecompiledCharsmap(text)}; });
                         }},
    PartType<Normalizer>{"Replace",
                         [](JsonFields& fields) -> Normalizer {
                           return Replace{Pattern(fields), fields.short_string("content")};
                         }},
    PartType<Normalizer>{
        "Prepend",
        [](JsonFields& fields) -> Normalizer { return Prepend{fields.short_string("prepend")}; }},
    PartType<Normalizer>{"ByteLevel",
                         [](JsonFields& fields) -> Normalizer {
                           fields.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
                           return ByteLevel{};
                         }},
};

}  // namespace
}  // namespace normalizers

std::vector<Normalizer> parse_normalizers(JsonFields& root) {
  return parts_under<Normalizer>("normalizer", root, normalizers::kTypes, "normalizers");
}

void normalize(const std::vector<Normalizer>& parts, NormalizedText& text) {
  const auto original_bytes = text.text.size();
  for (const auto& normalizer : parts) {
    std::visit([&](const auto& part) { normalizers::apply(part, text); }, normalizer);
    check_growth("normalizer", original_bytes, text.text.size());
  }
}

}  // namespace attend::tokenizers
