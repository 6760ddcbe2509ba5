#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/read_table.h"
#include "io/parse_json.h"
#include "train/tasks/answer_format.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>

namespace attend::train {
namespace {

using Messages = nlohmann::ordered_json;

constexpr const char* kAnswerer = "assistant";

bool is_answer(const Messages& message) {
  return message.is_object() && message.contains("role") && message["role"] == kAnswerer;
}

Messages first(const Messages& messages, std::size_t count) {
  auto some = Messages::array();
  some.insert(some.end(), messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
  return some;
}

/// Returns the number of bytes or tokens with which both begin.
template <typename Items>
std::size_t common_prefix(const Items& one, const Items& other) {
  const auto [end, unused] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
  return static_cast<std::size_t>(end - one.begin());
}

/// The time of `strftime_now` in templates: noon of 2024-01-01. It is fixed, so that a run that is
/// resumed on another day has the same data.
std::time_t fixed_time() {
  std::tm noon{};
  noon.tm_hour = 12;
  noon.tm_mday = 1;
  noon.tm_year = 2024 - 1900;
  noon.tm_isdst = -1;  // as the time zone says
  return std::mktime(&noon);
}

PackedExample encode_chat(const RenderedChat& chat, const PublishedTokenizer& tokenizer) {
  const auto encode = [&](std::string_view text) {
    return tokenizer.encode(text, {.add_special_tokens = false});
  };
  auto tokens = encode(chat.text);
  std::vector<bool> is_answer(tokens.size(), false);
  // A token that contains a part of an answer and other text belongs to the answer.
  for (const auto& [begin, end] : chat.generated) {
    const auto before = encode(std::string_view(chat.text).substr(0, begin));
    const auto until = encode(std::string_view(chat.text).substr(0, end));
    const auto from = common_prefix(tokens, before);
    const auto whole = common_prefix(tokens, until);
    const auto to = std::min(whole + (whole < until.size() ? 1 : 0), tokens.size());
    for (auto i = from; i < to; ++i) is_answer[i] = true;
  }
  return {std::move(tokens), std::move(is_answer)};
}

/// Chats in a column of .jsonl files.
class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(const DataConfig& data, const PublishedTokenizer& tokenizer)
      : data_(data), template_(*tokenizer.model().chat_template) {}

  std::vector<Example> read(const std::vector<std::string>& paths, const Tokenizer*,
                            bool) const override {
    std::vector<Example> examples;
    for (const auto& path : paths) {
      const auto table = read_table(
          path, {{.name = data_.messages_column, .option = "messages_column", .may_be_list = true}},
          data_.max_text_bytes);
      for (std::size_t i = 0; i < table.line_numbers.size(); ++i) {
        with_source(fmt::format("{}:{}", path, table.line_numbers[i]), [&] {
          if (!table.lists.contains({0, i}))
            throw InputError(fmt::format("the column '{}': expected a list of messages, found '{}'",
                                         data_.messages_column, printable(table.columns[0][i])));
          examples.push_back(example_of(parse_ordered_json(table.columns[0][i])));
        });
      }
    }
    return examples;
  }

  std::vector<PackedExample> encode(const Example& example,
                                    const Tokenizer& tokenizer) const override {
    const auto& published = dynamic_cast<const PublishedTokenizer&>(tokenizer);
    std::vector<PackedExample> encoded;
    for (const auto& chat : rendered(parse_ordered_json(example.answer)))
      encoded.push_back(encode_chat(chat, published));
    return encoded;
  }

  /// The last answer of a chat.
  Example sample(const Example& example, const Tokenizer& tokenizer) const override {
    const auto chats = rendered(parse_ordered_json(example.answer));
    if (chats.empty() || chats.back().generated.empty()) return {};
    const auto& chat = chats.back();
    const auto [begin, end] = chat.generated.back();
    Example last{chat.text.substr(0, begin), chat.text.substr(begin, end - begin)};
    last.prompt_tokens = dynamic_cast<const PublishedTokenizer&>(tokenizer).encode(
        last.prompt, {.add_special_tokens = false});
    return last;
  }

 private:
  /// Checks that the template accepts a chat.
  Example example_of(Messages messages) const {
    for (auto& message : messages) {
      if (message.is_object() && message.contains("content") && message["content"].is_string())
        message["content"] = with_line_breaks(message["content"].get<std::string>(), data_);
    }
    const auto answer = std::ranges::find_if(messages, is_answer);
    if (answer == messages.end())
      throw InputError(
          fmt::format("the column '{}': expected a message with the role '{}', found none",
                      data_.messages_column, kAnswerer));
    rendered(messages);
    // A chat that begins with an answer is grouped by it.
    const auto begin = std::max<std::ptrdiff_t>(answer - messages.begin(), 1);
    return {first(messages, static_cast<std::size_t>(begin)).dump(), messages.dump()};
  }

  RenderedChat render(const Messages& messages, bool add_generation_prompt = false) const {
    return template_.render_json(
        messages.dump(), {.add_generation_prompt = add_generation_prompt, .now = fixed_time()});
  }

  /// Returns a chat with its answers. If the template leaves out a part of earlier answers, such as
  /// their reasoning, returns a chat for each answer instead.
  std::vector<RenderedChat> rendered(const Messages& messages) const {
    auto whole = render(messages);
    if (template_.marks_answers()) return {std::move(whole)};
    whole.generated.clear();
    std::vector<RenderedChat> chats;
    bool is_prefix = true;  // is each chat that of `chats` a part of the whole one?
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (!is_answer(messages[i])) continue;
      auto chat = render(first(messages, i + 1));
      chat.text.erase(chat.text.find_last_not_of(" \t\r\n") + 1);  // is not generated
      const auto begin = begin_of_answer(messages, i, chat.text);
      if (begin >= chat.text.size()) continue;
      chat.generated = {{begin, chat.text.size()}};
      is_prefix &= whole.text.starts_with(chat.text);
      whole.generated.push_back(chat.generated.front());
      chats.push_back(std::move(chat));
    }
    if (is_prefix) return {std::move(whole)};
    return chats;
  }

  /// Returns where message i begins in the text of the chat up to it; std::string::npos if unknown.
  std::size_t begin_of_answer(const Messages& messages, std::size_t i,
                              const std::string& text) const {
    if (i > 0) return common_prefix(render(first(messages, i), true).text, text);
    // Without messages, no template makes a prompt: what it adds after this message is before it,
    // too.
    const auto one = render(first(messages, 1)).text;
    const auto prompt = render(first(messages, 1), true).text;
    const auto added = prompt.starts_with(one) ? prompt.substr(one.size()) : std::string();
    const auto at = added.empty() ? std::string::npos : text.find(added);
    return at == std::string::npos ? at : at + added.size();
  }

  DataConfig data_;
  ChatTemplate template_;
};

}  // namespace

std::unique_ptr<AnswerFormat> chat_format(const DataConfig& data, const Tokenizer* tokenizer) {
  const auto* published = dynamic_cast<const PublishedTokenizer*>(tokenizer);
  if (published != nullptr && published->model().chat_template)
    return std::make_unique<ChatFormat>(data, *published);
  throw InputError(
      fmt::format("`messages_column` requires the tokenizer of a published model with a chat "
                  "template, found {}; see --init-from",
                  published == nullptr ? "another tokenizer" : "no template"));
}

}  // namespace attend::train
