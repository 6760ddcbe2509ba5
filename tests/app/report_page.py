"""Reads a page that attend report or attend compare wrote."""

import html.parser
import json


class Page(html.parser.HTMLParser):
    """The JSON, the texts by section, and the elements of a page."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.scripts = [], {}, []
        self.section = None
        self.in_script = False
        self.feed(path.read_text(encoding="utf-8"))
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "section":
            self.section = dict(attributes)["id"]
            self.texts[self.section] = []
        if tag == "script":
            self.in_script = dict(attributes).get("id") == "data"

    def handle_endtag(self, tag):
        if tag == "section":
            self.section = None
        if tag == "script":
            self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            self.scripts.append(data)
        elif self.section:
            self.texts[self.section].append(data)
