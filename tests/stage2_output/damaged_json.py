"""JSON with the damage and the surrounding text that models produce."""

import json
import re


def listed(text):
    """Return the parts of a text that are separated by commas."""
    return re.split(r",\s+", text)


# The kinds of damage inside a value, and those that affect it as a whole.
INSIDE = listed("""trailing comma, leading comma, missing comma, missing colon, single quotes,
    smart quotes, full-width punctuation, full-width quotes, backtick quotes, triple quotes,
    joined strings, unquoted key, unquoted text, comment, special space, foreign literal,
    foreign escape, unescaped newline, unescaped quote, unescaped apostrophe,
    unescaped backslash, wrong closer, ellipsis""")
OUTSIDE = listed("""missing closers, extra closers, double encoding, escaped quotes,
    byte order mark, doubled braces""")
COMMENTS = ["/* c */", '/* "x": 1, */', "// c\n", "// it's }\n", "# c\n", '# "c": [\n', "/*\n*/"]
SPACES = ["\u00a0", "\u2003", "\u200b", "\ufeff", "\u3000", "\v", "\f", "\x85", "\u2028"]
SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
WIDE = dict(zip("{}[],:", "｛｝［］，：", strict=True))

# Ambiguous damage is not produced.
# A quote followed by structure may itself be structure: `a", "b": "c` without escapes is two members.
LIKE_STRUCTURE = re.compile(r'^"|"$|"\s*(?:["{}\[\]，<`+#/]|,(?! [a-zé]+ ))')
# The same applies to an apostrophe outside a word, and to a backslash before a letter of an escape.
WITHIN_WORDS = re.compile(r"(?:[^']|(?<=[a-zé])'(?=[a-zé]))*")
REAL_ESCAPE = re.compile(r"\\(?=[^a-zA-Z]|[bfnrtuxU]|\Z)")
# Text without quotes is not a literal, not beside another text without a comma, and not beside a
# comment (`a#b`). It is not the first item of a list, because "[see below]" in prose is not JSON.
# `{word # ...` and `{word {` are not JSON either: a colon directly follows an unquoted key.
BARE_WORDS = re.compile(r"(?!(?:true|false|null)\b)[a-zé中文][-a-zé中文 ]*(?<! )")


class Writer:
    """Writes a value as JSON with the given kinds of damage, each at some positions."""

    def __init__(self, random, damages, share=0.5):
        self._random, self._damages, self._share = random, damages, share

    def _does(self, damage):
        return damage in self._damages and self._random.random() < self._share

    def write(self, value, *, first=False):
        """Return a value as JSON; `first` marks the first item of a list."""
        if isinstance(value, dict):
            return self._joined("{", [self._member(key, item) for key, item in value.items()], "}")
        if isinstance(value, list):
            items = [self.write(item, first=number == 0) for number, item in enumerate(value)]
            return self._joined("[", items, "]")
        if isinstance(value, str):
            return self._text(value, first)
        if isinstance(value, bool | None) and self._does("foreign literal"):
            return repr(value) if value is not None or self._random.random() < 0.5 else "undefined"
        return json.dumps(value)

    def _joined(self, begin, parts, end):
        text = self._mark(begin) + ("," if self._does("leading comma") else "")
        for number, part in enumerate(parts):
            text += self._gap() + part
            if number == len(parts) - 1:
                break
            if self._does("missing comma"):
                text += self._random.choice([" ", "\n", "\n  "])
            else:
                text += self._gap() + self._mark(",")
        if self._does("ellipsis"):
            text += (", " if parts else "") + "..."
        elif parts and self._does("trailing comma"):
            text += self._gap() + ","
        if parts and self._does("wrong closer"):  # `{]` is not JSON
            end = {"}": "]", "]": "}"}[end]
        return text + self._gap() + self._mark(end)

    def _mark(self, mark):
        return WIDE[mark] if self._does("full-width punctuation") else mark

    def _member(self, key, value):
        is_bare = key.isidentifier() and self._does("unquoted key")
        loses_colon = self._does("missing colon")
        colon = self._random.choice([" ", " => ", "=>"])
        if is_bare or not loses_colon:
            colon = "=>" if loses_colon else self._mark(":")
            colon = colon if is_bare else self._gap() + colon + self._gap()
        written = key if is_bare else self._quoted(key, is_key=True)
        return written + colon + self.write(value)

    def _gap(self):
        gap = self._random.choice(["", "", " ", "\n"])
        if self._does("comment"):
            touches = "" if "unquoted text" not in self._damages else " "
            gap += self._random.choice([touches, " ", "\n"]) + self._random.choice(COMMENTS)
        if self._does("special space"):
            gap += self._random.choice(SPACES)
        return gap

    def _text(self, text, first):
        is_clear = not first and "missing comma" not in self._damages
        if is_clear and BARE_WORDS.fullmatch(text) and self._does("unquoted text"):
            return text
        if "\n" in text and not {*text} & {*'\\"'} and self._does("triple quotes"):
            return f'"""{text}"""'
        if not {*text} & {*"\\`"} and self._does("backtick quotes"):
            return f"`{text}`"
        if len(text) > 1 and self._does("joined strings"):
            at = self._random.randrange(1, len(text))
            plus = self._gap() + "+" + self._gap()
            return self._quoted(text[:at]) + plus + self._quoted(text[at:])
        return self._quoted(text)

    def _quoted(self, text, *, is_key=False):
        escaped = json.dumps(text, ensure_ascii=self._random.random() < 0.3)[1:-1]
        body = self._damage_body(text, escaped, is_key)
        single = re.sub(r"\\(.)", lambda found: '"' if found[1] == '"' else found[0], body)
        if self._does("single quotes"):
            return "'" + single.replace("'", "\\'") + "'"
        if WITHIN_WORDS.fullmatch(text) and self._does("unescaped apostrophe"):
            return "'" + single + "'"
        if not {*text} & {*"“”„‟"} and self._does("smart quotes"):
            return "“" + body + "”"
        if "＂" not in text and self._does("full-width quotes"):
            return "＂" + body + "＂"
        return '"' + body + '"'

    def _damage_body(self, text, body, is_key):
        if self._does("unescaped newline"):
            for mark, escape in SHORT.items():
                body = re.sub(rf"(?<!\\)((?:\\\\)*){re.escape(escape)}", rf"\1{mark}", body)
        if not is_key and not LIKE_STRUCTURE.search(text) and self._does("unescaped quote"):
            body = body.replace('\\"', '"')
        plain = body.isascii() and "\\u" not in body.replace("\\\\", "") and '"' not in text
        if plain and not REAL_ESCAPE.search(text) and self._does("unescaped backslash"):
            body = body.replace("\\\\", "\\")
        if body.isalnum() and self._does("foreign escape"):
            body = f"\\U{ord(body[0]):08x}{body[1:]}"
        return body


def damaged(text, damages, random):
    """Apply the kinds of damage that affect a text as a whole."""
    if "doubled braces" in damages and text[0] == "{" and text[-1] == "}":
        text = "{" + text + "}"
    if "missing closers" in damages:
        text = re.sub(rf"(?:[\]}}｝］]\s*){{1,{random.randrange(1, 4)}}}\Z", "", text)
    elif "extra closers" in damages:  # only at the end, because others would close open containers
        text += random.choice(["}", "]", "}}", "\n}", "]\n}"])
    if {*damages} <= {"byte order mark", "double encoding", "escaped quotes"}:
        # Unrepairable JSON in a valid string is that string; text without quotes does not look escaped.
        if "double encoding" in damages and '"' in text:
            text = json.dumps(text)
        elif "escaped quotes" in damages and '"' in text:
            text = json.dumps(text)[1:-1]
    return "\ufeff" + text if "byte order mark" in damages else text


# Replies with a value at the mark @.
FRAMES = listed(
    """@,  ↵ @ ↵,  ```json↵@↵```,  ```↵@↵```,  Here you go:↵↵```json↵@↵```↵Is that all?,  ```json↵@,
    Sure! Here it is: @,  **Answer:** @,  The answer is↵@↵as you asked.,
    As {name} said [1]: use↵@↵,
    <think>Let me see. I need {one} of [these].</think>↵@,  <think>Or {"draft": 1} or [1]?</think>@,
    So the user wants it.</think>↵@,  <tool_call>↵@↵</tool_call>,  <tool_call>@""".replace(
        "↵", "\n"
    )
)


def reply(value, damages, random):
    """Return a reply with a damaged value inside other text."""
    written = Writer(random, damages).write(value)
    return random.choice(FRAMES).replace("@", damaged(written, damages, random))
