"""Compares ChatTemplate with apply_chat_template of transformers, whose templates the Python package
jinja2 renders: random conversations with templates in the style of each family of published models,
and random expressions and statements. The texts must be equal; what one refuses, the other must
refuse, too.

CTest runs this file with the environment variable RUN_CHAT_TEMPLATE, the path of the program
run_chat_template. CHATS sets the number of conversations per template, EXPRESSIONS the number of
random expressions. Before a release and after a change to the templates:

    CHATS=3000 EXPRESSIONS=100000 ctest --preset release -R tokenizers.chat_templates

If a package is missing, the exit status is 77, which CTest reports as skipped.
"""

import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    from transformers.utils import chat_template_utils
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHATS = int(os.environ.get("CHATS", "60"))
EXPRESSIONS = int(os.environ.get("EXPRESSIONS", "4000"))
SEED = int(os.environ.get("ATTEND_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
NOW = 1782000000


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


class Program:
    """The program run_chat_template."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["RUN_CHAT_TEMPLATE"]], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def render(self, messages, add_generation_prompt=False, **variables):
        return self(render=json.dumps(messages), add_generation_prompt=add_generation_prompt,
                    variables=json.dumps(variables), now=NOW)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def expected(template, messages, add_generation_prompt=False, **variables):
    """Returns the text and the generated parts, as offsets of bytes, or None for an error."""
    messages = [{key: value for key, value in message.items() if value is not None} for message in messages]
    try:
        with mock.patch.object(chat_template_utils, "datetime", FixedTime):
            texts, marks = chat_template_utils.render_jinja_template(
                [messages], chat_template=template, return_assistant_tokens_mask=True,
                add_generation_prompt=add_generation_prompt, **TOKENS, **variables)
    except Exception:  # of any type: TypeError, TemplateError, ZeroDivisionError ...
        return None
    text = texts[0]
    return [text, [[len(text[:at].encode()) for at in mark] for mark in marks[0]]]


class Values:
    """Random values of messages."""

    def __init__(self, rng):
        self.rng = rng

    def text(self):
        pieces = ["Hello", " ", "  ", "\n", "\n\n", "\t", "wörld", "日本語", "😀", "'", '"', "\\", "<b>", "&", "{{ x }}", "{% if %}",
                  "</think>", "<think>", "1.5", "don't", "ß", "a" * 20, "\u00a0", "\r\n", "\x07", "%s", ".", ","]
        return "".join(self.rng.choice(pieces) for _ in range(self.rng.randrange(8)))

    def scalar(self):
        return self.rng.choice([None, True, False, 0, 1, -7, 12345678901, 1.0, 0.1, -2.5e-7, 1e16, 123456789.125,
                                self.text(), self.text()])

    def value(self, depth=2):
        kind = self.rng.randrange(5) if depth > 0 else 0
        if kind == 3:
            return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind == 4:
            return {self.rng.choice(["a", "b", "name", "é", "x y", "items"]): self.value(depth - 1)
                    for _ in range(self.rng.randrange(4))}
        return self.scalar()

    def call(self):
        return {"type": "function", "id": self.text(),
                "function": {"name": self.text(), "arguments": {"q": self.value(), "n": self.scalar()}}}

    def message(self, role):
        message = {"role": role, "content": self.text()}
        kind = self.rng.randrange(12)
        if role == "assistant" and kind == 0:
            message["tool_calls"] = [self.call() for _ in range(self.rng.randrange(1, 3))]
        if role == "assistant" and kind == 1:
            message[self.rng.choice(["reasoning_content", "thinking", "reasoning"])] = self.text()
        if kind == 2:
            message["content"] = None
        if kind == 3:
            message["content"] = [{"type": "text", "text": self.text()}, {"type": "image"}, self.value()]
        if kind == 4:
            message["extra"] = self.value()
        return message

    def chat(self):
        roles = ["system"] if self.rng.randrange(3) == 0 else []
        for _ in range(self.rng.randrange(1, 4)):
            roles += ["user", "assistant"]
        if self.rng.randrange(2):
            roles.pop()
        if self.rng.randrange(4) == 0:
            roles.insert(self.rng.randrange(len(roles) + 1), self.rng.choice(["tool", "user", "system", "stop", "tool"]))
        return [self.message(role) for role in roles or ["user"]]


class Expressions:
    """Random expressions of the supported part of Jinja."""

    FILTERS = ["trim", "upper", "lower", "length", "list", "first", "last", "string", "tojson", "capitalize", "title",
               "reverse|list", "join", "join(', ')", "default('d')", "default('d', true)", "int", "float", "abs", "sort",
               "unique|list", "items|list", "dictsort", "min", "max", "sum", "replace('a', 'b')", "replace('l', '', 1)",
               "indent", "indent(2, true)", "indent(width='> ', blank=true)", "map('upper')|list",
               "map(attribute='a')|list", "map(attribute='a', default=0)|list", "select|list", "reject('none')|list",
               "select('string')|list", "selectattr('a')|list", "rejectattr('a', 'defined')|list",
               "selectattr('a', 'eq', 1)|list", "tojson(indent=2)", "tojson(sort_keys=false, ensure_ascii=true)",
               "tojson(separators=(',', ':'))", "sort(reverse=true)", "sort(attribute='a')", "trim('a ')", "count",
               "string|length", "d('e')"]
    TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable",
             "sequence", "true", "false", "odd", "even", "eq 1", "equalto('a')", "ne none", "in [1, 'a']", "divisibleby 3",
             "divisibleby 0.5", "divisibleby(-1)", "divisibleby(1.5)",
             "lt 2", "gt(1)", "ge 1", "le 3", "upper", "lower", "callable", "sameas_"]
    METHODS = ["strip()", "lstrip()", "rstrip('d\\n')", "split()", "split('l')", "split(' ', 1)", "rsplit(None, 1)",
               "rsplit('l', 1)", "upper()", "lower()", "title()", "capitalize()", "startswith('H')", "endswith(('o', 'd'))",
               "find('l')", "rfind('l')", "count('l')", "replace('l', 'L')", "replace('', '-')", "splitlines()",
               "splitlines(true)", "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "partition('l')",
               "rpartition('l')", "removeprefix('He')", "removesuffix('o')", "join(['a', 'b'])",
               "startswith(prefix='H')", "join(iterable=['a'])", "count(value=1)", "strip(chars='H')", "get(key='a')",
               "strip('a ')", "split(sep='l')", "items()|list", "keys()|list", "get('a')",
               "get('zz', 5)", "values()|list", "index(1)", "a", "b", "zz", "x"]
    OPERATORS = ["+", "-", "*", "/", "//", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]

    def __init__(self, rng):
        self.rng = rng

    def atom(self):
        return self.rng.choice(["none", "true", "false", "0", "1", "2", "-3", "1.0", "2.5", "0.1", "1e3", "'Hello wörld'", "''",
                                "' a\\tb\\n c'", "'x' 'y'", "\"it's\"", "[]", "[1, 2, 3]", "['b', 'a', 'B']", "(1, 'a')", "()", "{}",
                                "{'a': 1, 'b': [true]}", "[{'a': 1}, {'a': 0}, {'b': 2}]", "missing", "text", "text", "number",
                                "things", "table", "messages", "'日本😀'", "'STRASSE ß'", "1_000", "range(3)|list",
                                "(7 % -3)", "(number % 2)", "(-7.5 % 2)", "dict(a=1)", "range(5, 0, -2)|list"])

    def __call__(self, depth):
        if depth == 0:
            return self.atom()
        part = lambda: self(self.rng.randrange(depth))
        kind = self.rng.randrange(12)
        if kind < 3:
            return f"({part()} | {self.rng.choice(self.FILTERS)})"
        if kind == 3:
            name = self.rng.choice(self.TESTS[:-1])
            return f"({part()} is {self.rng.choice(['', 'not '])}{name})"
        if kind < 6:
            return f"({part()}).{self.rng.choice(self.METHODS)}"
        if kind < 9:
            return f"({part()} {self.rng.choice(self.OPERATORS)} {part()})"
        if kind == 9:
            bounds = [self.rng.choice(["", "", "0", "1", "-1", "2", "5", "-5", "none"]) for _ in range(3)]
            bounds[2] = self.rng.choice(["", "", "1", "2", "-1", "-2"])
            # Jinja computes slices of constants in another way.
            sliced = self.rng.choice(["text", "things", "messages", "table", "number", "missing", "(text ~ 'x')"])
            return self.rng.choice([f"({part()})[{part()}]", f"{sliced}[{':'.join(bounds)}]", f"{sliced}[{':'.join(bounds[:2])}]"])
        if kind == 10:
            return self.rng.choice([f"({part()} if {part()} else {part()})", f"({part()} if {part()})", f"(not {part()})",
                                    f"(-{part()})", f"[{part()}, {part()}]", f"({part()}, {part()})", f"{{'k': {part()}}}"])
        return f"({part()} {self.rng.choice(['<', '==', '!='])} {part()} {self.rng.choice(['<', '>=', 'in'])} {part()})"


class Statements:
    """Random templates of statements."""

    def __init__(self, rng):
        self.rng = rng
        self.expression = Expressions(rng)

    def data(self):
        return "".join(self.rng.choice(["a", " ", "  ", "\n", "\n\n", "\t", "{", "}", "%", "#", "b {", "'", "\r\n", "é"])
                       for _ in range(self.rng.randrange(5)))

    def tag(self, text):
        begin = self.rng.choice(["{%", "{%", "{%", "{%-", "{%-", "{%+"])
        end = self.rng.choice(["%}", "%}", "%}", "-%}", "-%}", "+%}"])
        return f"{begin} {text} {end}"

    def variable(self, text):
        return f"{self.rng.choice(['{{', '{{', '{{-'])} {text} {self.rng.choice(['}}', '}}', '-}}'])}"

    def body(self, depth, in_loop=False, at_top=False):
        return "".join(self.statement(depth, in_loop, at_top) + self.data() for _ in range(self.rng.randrange(1, 4)))

    def statement(self, depth, in_loop, at_top):
        name = self.rng.choice(["u", "v", "w"])
        value = self.expression(self.rng.randrange(2))
        kind = self.rng.randrange(13 if depth > 0 else 5)
        if kind == 0:
            return self.variable(self.rng.choice([name, name, "loop.index", "ns.n", "loop.last"]))
        if kind == 1:
            return self.variable(value)
        if kind == 2:
            return self.tag(f"set {name} = {value}")
        if kind == 3:
            return self.rng.choice([f"{{# {self.data().replace('#', '')} #}}", "{#- c -#}", "{#c#}\n", "  {#- c #}\n"])
        if kind == 4:
            if in_loop and self.rng.randrange(2):
                return (self.tag(f"if {value}") + self.tag(self.rng.choice(["break", "continue"])) + self.tag("endif"))
            return self.tag(f"set ns.n = {value}")
        body = lambda loop=in_loop: self.body(depth - 1, loop)
        if kind < 8:
            items = self.rng.choice(["[1, 2, 3]", "'ab'", "things", "table", "[]", "range(3)", value])
            condition = self.rng.choice(["", "", f" if {name} != 2"])
            other = self.tag("else") + body() if self.rng.randrange(3) == 0 else ""
            if self.rng.randrange(4) == 0:
                return self.tag("for k, u in table.items()") + body(True) + self.tag("endfor")
            return self.tag(f"for {name} in {items}{condition}") + body(True) + other + self.tag("endfor")
        if kind < 11:
            other = self.tag(f"elif {value}") + body() if self.rng.randrange(3) == 0 else ""
            other += self.tag("else") + body() if self.rng.randrange(2) else ""
            return self.tag(f"if {self.expression(1)}") + body() + other + self.tag("endif")
        if kind == 11:
            filters = self.rng.choice(["", " | trim", " | upper | length"])
            return self.tag(f"set {name}{filters}") + self.body(depth - 1) + self.tag("endset")
        if at_top:
            call = self.variable(self.rng.choice(["m(1)", "m(p=u)", "m()", "m('x', 2)"]))
            return self.tag("macro m(p, q='Q')") + self.body(depth - 1) + "{{ p }}{{ q }}" + self.tag("endmacro") + call
        return self.tag("raw") + "{{ x }} {% y %}" + self.tag("endraw").replace("+%}", "%}")

    def __call__(self):
        return self.tag("set ns = namespace(n=0)") + self.data() + self.body(3, at_top=True)


class SameTexts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"ATTEND_TEST_SEED={SEED}")
        cls.program = Program()

    @classmethod
    def tearDownClass(cls):
        cls.program.close()

    def setUp(self):
        self.rng = random.Random(f"{SEED} {self.id()}")
        self.values = Values(self.rng)

    def compare(self, template, messages, add_generation_prompt=False, **variables):
        """Returns True if both rendered the template."""
        found = self.program(parse=template, tokens=TOKENS)
        if found is None:
            found = self.program.render(messages, add_generation_prompt, **variables)
        wanted = expected(template, messages, add_generation_prompt, **variables)
        context = f"ATTEND_TEST_SEED={SEED}\n{template}\n{messages}\n{variables}"
        if wanted is None:
            self.assertIn("error", found, context)
        else:
            self.assertEqual(found, wanted, context)
        return wanted is not None

    def test_conversations(self):
        files = sorted((pathlib.Path(__file__).parent / "chat_templates").glob("*.jinja"))
        self.assertEqual(len(files), 7)
        for file in files:
            template = file.read_text()
            rendered = 0
            for _ in range(CHATS):
                variables = {}
                if self.rng.randrange(3) == 0:
                    variables["tools"] = [self.values.call() for _ in range(self.rng.randrange(3))]
                if self.rng.randrange(3) == 0:
                    variables["enable_thinking"] = self.rng.choice([True, False])
                with self.subTest(file.name):
                    rendered += self.compare(template, self.values.chat(), self.rng.choice([True, False]), **variables)
            self.assertGreater(rendered, CHATS // 10, file.name)

    VARIABLES = {"text": " Hello\n wörld ", "number": 3, "things": [1, "a", None, 2.5, [True]], "table": {"a": 1, "b": "x"}}

    def test_expressions(self):
        expression = Expressions(self.rng)
        rendered = 0
        for _ in range(EXPRESSIONS):
            template = "{{ " + expression(self.rng.randrange(1, 4)) + " }}"
            rendered += self.compare(template, [{"role": "user", "content": "x"}], **self.VARIABLES)
        self.assertGreater(rendered, EXPRESSIONS // 10)

    def test_statements(self):
        statements = Statements(self.rng)
        rendered = 0
        for _ in range(EXPRESSIONS // 4):
            rendered += self.compare(statements(), [{"role": "user", "content": "x"}], **self.VARIABLES)
        self.assertGreater(rendered, EXPRESSIONS // 40)

    def test_load(self):
        """The template of a folder that transformers writes."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.assertFalse(self.program(load=str(folder)))
            messages = [{"role": "user", "content": "x"}]
            config = {"bos_token": {"content": "<s>", "special": True}, "eos_token": "</s>", "unk_token": None,
                      "chat_template": "{{ bos_token }}1{{ unk_token }}"}
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            self.assertTrue(self.program(load=str(folder)))
            self.assertEqual(self.program.render(messages)[0], "<s>1")
            config["chat_template"] = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "2"}]
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            self.program(load=str(folder))
            self.assertEqual(self.program.render(messages)[0], "2")
            (folder / "chat_template.jinja").write_text("3{{ eos_token }}\n")
            self.program(load=str(folder))
            self.assertEqual(self.program.render(messages)[0], "3</s>")


if __name__ == "__main__":
    unittest.main()
