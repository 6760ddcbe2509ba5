#include "attend/train/subword_tokenizer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace attend::train {
namespace {

constexpr int64_t kBytes = 256;
/// The length in bytes up to which SentencePiece can be told to learn from a line: its greatest.
constexpr int64_t kLongestLine = 1 << 30;
/// SentencePiece writes a space as this character, and cannot tell it from one in the text.
constexpr std::string_view kSpaceMark = "\u2581";
/// SentencePiece does not learn from a line with this character, which is its own sign for the
/// unknown.
constexpr std::string_view kUnknownMark = "\u2585";

/// What stands between the separators, and the separators.
template <typename UsePart, typename UseSeparator>
void split(std::string_view text, std::string_view separator, const UsePart& use_part,
           const UseSeparator& use_separator) {
  for (;;) {
    const auto end = text.find(separator);
    use_part(text.substr(0, end));
    if (end == std::string_view::npos) return;
    use_separator();
    text.remove_prefix(end + separator.size());
  }
}

/// What is learned from: the lines of a text, cut where they have a zero byte or U+2585, since
/// SentencePiece leaves such lines out; and a space, so that every vocabulary has a token for it.
std::vector<std::string_view> learned_parts(std::string_view text) {
  std::vector<std::string_view> parts{text};
  for (const auto separator : {std::string_view("\n"), std::string_view("\0", 1), kUnknownMark}) {
    std::vector<std::string_view> cut;
    const auto keep = [&](std::string_view part) { cut.push_back(part); };
    for (const auto part : parts) split(part, separator, keep, [] {});
    parts = std::move(cut);
  }
  parts.push_back(" ");
  return parts;
}

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string_view>& parts)
      : parts_(parts), sentence_(parts.front()) {}

  bool done() const override { return next_ == parts_.size(); }
  void Next() override {
    if (++next_ < parts_.size()) sentence_ = parts_[next_];
  }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string_view>& parts_;
  std::size_t next_ = 0;
  std::string sentence_;
};

/// Tokens that a vocabulary has at least: <unk>, the line break, the bytes, the characters.
int64_t smallest_size(const std::vector<std::string_view>& parts) {
  std::set<std::string_view> distinct;
  for (const auto part : parts) {
    const auto characters = split_characters(part);
    distinct.insert(characters.begin(), characters.end());
  }
  distinct.erase("\t");  // only as bytes
  distinct.erase(kSpaceMark);
  return 2 + kBytes + static_cast<int64_t>(distinct.size());
}

std::string learn_model(const std::vector<std::string_view>& parts, int64_t size) {
  Sentences sentences(parts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", "bpe"},
       {"vocab_size", std::to_string(size)},
       {"hard_vocab_limit", "false"},  // so that a size too large tells the largest
       {"byte_fallback", "true"},
       {"character_coverage", "1.0"},
       {"normalization_rule_name", "identity"},
       {"remove_extra_whitespaces", "false"},
       {"add_dummy_prefix", "false"},
       {"user_defined_symbols", "\n"},
       {"bos_id", "-1"},
       {"eos_id", "-1"},
       {"max_sentence_length", std::to_string(kLongestLine)},
       {"num_threads", "1"},
       {"minloglevel", "3"}},
      &sentences, &model);
  if (!status.ok()) {
    throw InputError(
        fmt::format("SentencePiece cannot learn from this text: {}", status.message()));
  }
  return model;
}

/// Switches off what a model may bring to change text by: tables of replacements, of which made-up
/// ones crash SentencePiece. These are fields of its protocol buffer, normalizer_spec (3) and
/// denormalizer_spec (5), with an empty precompiled_charsmap (2): what comes later in a protocol
/// buffer replaces what came before.
std::string without_replacements(std::string_view model) {
  using namespace std::string_view_literals;
  return std::string(model) + std::string(
                                  "\x1A\x02\x12\x00"
                                  "\x2A\x02\x12\x00"sv);
}

std::string name_of_byte(int64_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

}  // namespace

struct SubwordTokenizer::Model {
  sentencepiece::SentencePieceProcessor processor;
  int line_break = 0;
  std::vector<int> space_mark;  // its bytes

  explicit Model(std::string_view serialized) {
    if (!processor.LoadFromSerializedProto(without_replacements(serialized)).ok()) {
      throw InputError("not a SentencePiece model");
    }
    for (int64_t byte = 0; byte < kBytes; ++byte) id_of(name_of_byte(byte));
    for (const char byte : kSpaceMark) {
      space_mark.push_back(id_of(name_of_byte(static_cast<unsigned char>(byte))));
    }
    line_break = id_of("\n");
  }

  int id_of(const std::string& piece) const {
    const int id = processor.PieceToId(piece);
    if (id == processor.unk_id()) {
      throw InputError(
          fmt::format("a SentencePiece model without the piece '{}'", printable(piece)));
    }
    return id;
  }

  void append(std::string_view plain, std::vector<int64_t>& ids) const {
    const auto more = processor.EncodeAsIds(plain);
    ids.insert(ids.end(), more.begin(), more.end());
  }

  int checked(int64_t id) const {
    if (id >= 0 && id < processor.GetPieceSize()) return static_cast<int>(id);
    throw std::out_of_range(
        fmt::format("there is no token {}: expected 0 to {}", id, processor.GetPieceSize() - 1));
  }
};

SubwordTokenizer::SubwordTokenizer(std::shared_ptr<const Model> loaded)
    : model_(std::move(loaded)) {}

SubwordTokenizer SubwordTokenizer::learn(std::string_view text, int64_t size) {
  check_utf8(text);
  const auto parts = learned_parts(text);
  const int64_t smallest = smallest_size(parts);
  if (size < smallest) {
    throw InputError(fmt::format(
        "a subword vocabulary of {} tokens is too small for this text: expected at least {}", size,
        smallest));
  }
  // Each token beyond the smallest joins two that stand in the text.
  const int64_t asked = std::min(size, smallest + static_cast<int64_t>(text.size()));
  SubwordTokenizer tokenizer(std::make_shared<Model>(learn_model(parts, asked)));
  if (tokenizer.size() < size) {
    throw InputError(fmt::format(
        "a subword vocabulary of {} tokens is too large for this text: expected at most {}", size,
        tokenizer.size()));
  }
  return tokenizer;
}

SubwordTokenizer SubwordTokenizer::from_model(std::string_view model) {
  SubwordTokenizer tokenizer(std::make_shared<Model>(model));
  const std::string probe = " a  b\n\n \t\u2581\u2585c\U0001F600 ";
  if (tokenizer.model() != model || tokenizer.decode(tokenizer.encode(probe)) != probe) {
    throw InputError("a SentencePiece model that changes text, or a damaged one");
  }
  return tokenizer;
}

std::string SubwordTokenizer::model() const {
  return model_->processor.serialized_model_proto();
}

int64_t SubwordTokenizer::size() const {
  return model_->processor.GetPieceSize();
}

std::vector<int64_t> SubwordTokenizer::encode(std::string_view text) const {
  check_utf8(text);
  std::vector<int64_t> ids;
  // A line at a time, since SentencePiece takes hundreds of bytes for each token of what it
  // encodes.
  const auto add_plain = [&](std::string_view plain) { model_->append(plain, ids); };
  const auto add_space_mark = [&] {
    ids.insert(ids.end(), model_->space_mark.begin(), model_->space_mark.end());
  };
  const auto add_line = [&](std::string_view line) {
    split(line, kSpaceMark, add_plain, add_space_mark);
  };
  split(text, "\n", add_line, [&] { ids.push_back(model_->line_break); });
  return ids;
}

std::string SubwordTokenizer::decode(const std::vector<int64_t>& ids) const {
  std::vector<int> pieces;
  pieces.reserve(ids.size());
  for (const auto id : ids) pieces.push_back(model_->checked(id));
  return model_->processor.DecodeIds(pieces);
}

std::string SubwordTokenizer::token(int64_t id) const {
  const int piece = model_->checked(id);
  const auto& name = model_->processor.IdToPiece(piece);
  // The name of a byte's piece is as <0x0A>.
  if (model_->processor.IsByte(piece))
    return fmt::format("\\x{:02x}", std::stoi(name.substr(3, 2), nullptr, 16));
  return printable(name);
}

std::map<std::string, std::string> SubwordTokenizer::files() const {
  const nlohmann::ordered_json json{{"unit", "subword"}, {"model", kSubwordModelFile}};
  return {{kTokenizerFile, json.dump(1) + "\n"}, {kSubwordModelFile, model()}};
}

}  // namespace attend::train
