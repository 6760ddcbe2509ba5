#include "attend/tokenizers/chat_template.h"

#include "attend/input_error.h"

#include <gmock/gmock.h>

#include <string>

namespace attend {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string render(const std::string& source, const ChatOptions& options = {}) {
  return ChatTemplate::parse(source, {{"bos_token", "<s>"}})
      .render({{.role = "user", .content = "Hi"}, {.role = "assistant", .content = "Hö"}}, options)
      .text;
}

TEST(ChatTemplate, RendersMessages) {
  EXPECT_EQ(render("{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}\n"
                   "{% endfor %}{% if add_generation_prompt %}>{% endif %}\n",
                   {.add_generation_prompt = true}),
            "<s>[user] Hi\n[assistant] Hö\n>");
}

TEST(ChatTemplate, PrintsValuesAsPython) {
  EXPECT_EQ(render("{{ none }} {{ true }} {{ 1.0 }} {{ [1e16, 'a\\'b'] }} {{ missing }}|"),
            "None True 1.0 [1e+16, \"a'b\"] |");
}

TEST(ChatTemplate, ToJsonDoesNotEscapeHtml) {
  EXPECT_EQ(render("{{ {'a': '<é&>', 'b': [none, 1.5]} | tojson }}"),
            "{\"a\": \"<é&>\", \"b\": [null, 1.5]}");
}

TEST(ChatTemplate, RemovesSpaceAroundTagsAsTransformers) {
  EXPECT_EQ(render("  {% if true %}\n a\n  {% endif %}\nb\n\n"), " a\nb\n");
  EXPECT_EQ(render("a \n {{- 'b' -}} \n c {#- d -#} e"), "abce");
  EXPECT_EQ(render("  {%+ if true +%}\na{% endif %}"), "  \na");
}

TEST(ChatTemplate, MarksGeneratedParts) {
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}{% if m.role == 'assistant' %}<{% generation %}{{ m.content }}"
      "{% endgeneration %}>{% else %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_TRUE(chat.marks_answers());
  const auto rendered = chat.render({{.role = "user", .content = "é"},
                                     {.role = "assistant", .content = "ja"},
                                     {.role = "assistant", .content = "nö"}});
  EXPECT_EQ(rendered.text, "é<ja><nö>");
  EXPECT_THAT(rendered.generated, testing::ElementsAre(std::pair(3, 5), std::pair(7, 10)));
  EXPECT_FALSE(ChatTemplate::parse("x").marks_answers());
}

TEST(ChatTemplate, StrftimeNowHasTheGivenTime) {
  EXPECT_EQ(render("{{ strftime_now('%Y') }}", {.now = 1'000'000'000}), "2001");
}

TEST(ChatTemplate, MessagesNameTemplateAndLine) {
  const auto parses = [](const std::string& source) {
    return [source] { ChatTemplate::parse(source, {}, "t.jinja"); };
  };
  const auto message = [](const std::string& part) {
    return ThrowsMessage<InputError>(HasSubstr(part));
  };
  EXPECT_THAT(parses("a\n{% if x %}"), message("t.jinja:2: "));
  EXPECT_THAT(parses("a\n\n{{ x | nofilter }}"), message("t.jinja:3: "));
  EXPECT_THAT(parses("{{ x | nofilter }}"), message("'nofilter'"));
  EXPECT_THAT(parses("{{ x is notest }}"), message("'notest'"));
  EXPECT_THAT(parses("{% include 'x' %}"), message("'include'"));
  EXPECT_THAT(parses("{{ 'a }}"), message("t.jinja:1: "));
  EXPECT_THAT(parses("{{ x ) }}"), message("')'"));
  EXPECT_THAT(parses("{% break %}"), message("'break'"));
  EXPECT_THAT(parses("{{ x; }}"), message("';'"));
  EXPECT_THAT(parses("\xFF"), message("0xFF"));
  const auto renders = [](const std::string& source) {
    return [source] {
      ChatTemplate::parse(source, {}, "t.jinja").render({{.role = "user", .content = "x"}});
    };
  };
  EXPECT_THAT(renders("\n{{ raise_exception('no tools') }}"), message("t.jinja:2: "));
  EXPECT_THAT(renders("{{ raise_exception('no tools') }}"), message("no tools"));
  EXPECT_THAT(renders("\n\n{{ missing.name }}"), message("t.jinja:3: 'missing'"));
  EXPECT_THAT(renders("{{ 1 + 'a' }}"), message("int + str"));
  EXPECT_THAT(renders("{{ 9223372036854775807 + 1 }}"), message("63 bits"));
}

TEST(ChatTemplate, DividesByFractionsAndNegativeNumbers) {
  EXPECT_EQ(
      render("{{ 4 is divisibleby(0.5) }} {{ 4 is divisibleby(1.5) }} {{ 3 is divisibleby(1.5) }} "
             "{{ (-9223372036854775807 - 1) is divisibleby(-1) }} {{ 4.5 is divisibleby(-2) }}"),
      "True False True True False");
  EXPECT_THROW(render("{{ 4 is divisibleby(0.0) }}"), InputError);
}

TEST(ChatTemplate, RefusesNamesOfPositionalArguments) {
  for (const char* source :
       {"'a'.startswith(prefix='a')", "'a'.endswith(suffix='a')", "'a'.join(iterable=['a'])",
        "[1].count(value=1)", "[1].index(value=1)", "'a'.find(sub='a')", "'a'.count(sub='a')",
        "'a'.partition(sep='a')", "'a'.removeprefix(affix='a')", "'a'.replace(old='a', new='b')",
        "'a'.replace('a', new='b')", "'a'.strip(chars='a')", "{'a': 1}.get(key='a')",
        "{'a': 1}.get('b', default=2)", "'a'.startswith()", "'a'.join()", "[1].count()"}) {
    EXPECT_THROW(render("{{ " + std::string(source) + " }}"), InputError) << source;
  }
  EXPECT_EQ(render("{{ 'a b'.split(sep=' ', maxsplit=1) }}"), "['a', 'b']");
}

TEST(ChatTemplate, LimitsStepsSizesAndDepth) {
  for (const char* source :
       {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 99999999 }}", "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor "
        "%}"}) {
    EXPECT_THROW(render(source), InputError) << source;
  }
  EXPECT_THROW(ChatTemplate::parse("{{ " + std::string(200, '(')), InputError);
  EXPECT_THROW(ChatTemplate::parse(std::string((1 << 20) + 1, 'x')), InputError);
}

TEST(ChatTemplate, RefusesMessagesThatAreNoList) {
  const auto chat = ChatTemplate::parse("x");
  for (const char* messages : {"[]", "{}", "[1]", "[", "[{\"role\": 1, \"role\": 2}]"})
    EXPECT_THROW(chat.render_json(messages), InputError) << messages;
  EXPECT_THROW(chat.render_json("[{}]", {.variables = "[]"}), InputError);
  EXPECT_THROW(chat.render({{.role = "user", .content = "\xFF"}}), InputError);
}

}  // namespace
}  // namespace attend
