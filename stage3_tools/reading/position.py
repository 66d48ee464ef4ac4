r"""Decide whether JSON is the whole reply, the answer in it, or a mention.

    {"tool": …}                        whole: nothing else is in the reply
    Sure.\n{"tool": …}                 answer: it begins a block, and ends the reply
    I will not run {"tool": …}!        mention: inside a sentence
    > {"tool": …}                      mention: in a quotation, inline code, a comment or a string

The position does not show the intention: a model that refuses may end its reply with a quotation,
which then is an answer. Therefore a write must be the whole reply. The functions expect a text
whose closed thinking blocks are replaced with white space. Used by `decision.py`.
"""

import re

MAX_CONTEXT = 1000
"""Characters before and behind the JSON that are examined."""

INVISIBLE = "\ufeff\u200b\u2060"
"""Characters without width, which are ignored like white space."""


def is_whole(text: str, start: int, end: int) -> bool:
    """Return whether nothing else remains in a reply.

    One code fence, one call tag, end-of-turn tokens and white space are ignored.
    """
    before, after = _stripped(text[:start]), _stripped(text[end:])
    if max(len(before), len(after)) > MAX_CONTEXT:
        return False
    return _WHOLE_START.fullmatch(before) is not None and _WHOLE_END.fullmatch(after) is not None


def is_answer(text: str, start: int, end: int) -> bool:
    """Return whether JSON begins a block and ends the reply."""
    before, after = text[:start], text[end:].rstrip()
    if not before.strip() and not after:
        return True
    return (
        begins_block(text, start)
        and len(after) <= MAX_CONTEXT
        and _ANSWER_END.fullmatch(after) is not None
        and not _is_enclosed(before)
    )


def begins_block(text: str, start: int) -> bool:
    """Return whether an index begins the reply, a line, or a fence or call tag on a line.

    Below a quotation mark, a tag that is not a call tag, or the label of another speaker, it begins
    a quotation.
    """
    before = text[max(0, start - MAX_CONTEXT) : start]
    *above, line = re.split(r"[\r\n]+", before)
    if not _BLOCK_START.fullmatch(line):
        return False
    while above and _BLOCK_START.fullmatch(above[-1]):  # blank, a fence or a call tag
        above.pop()
    return not above or _QUOTES_NEXT_LINE.search(above[-1]) is None


def _is_enclosed(before: str) -> bool:
    """Return whether a comment, a string, another speaker or a fence with text is still open."""
    fences = [*_FENCE.finditer(before)]
    if len(fences) % 2 and before[fences[-1].end() :].strip(f"{INVISIBLE} \t\r\n"):
        return True
    if any(before.count(quotes) % 2 for quotes in ('"""', "'''")):
        return True
    for opening, closing in _ENCLOSURES:
        opened = max((match.end() for match in opening.finditer(before)), default=0)
        if opened and not closing.search(before, opened):
            return True
    return False


def _stripped(text: str) -> str:
    return text.strip().strip(f"{INVISIBLE} \t\r\n")


# The patterns of tags contain no free words, in which a model could say that it quotes.

_CALL_NAME = (
    r"(?:(?:antml|minimax|seed|ns):)?(?:"
    r"(?:tool|function)s?(?:[_-]?(?:calls?|uses?|requests?|invocations?|code))?|calls?|invoke|"
    r"action|answer|final(?:[_-]?answer)?|decision|json|response|output|reply)"
)
"""Names of the tags in which models write calls and answers."""

_VALUE = r"(?:\"[a-z0-9_.:-]{0,60}\"|'[a-z0-9_.:-]{0,60}'|[a-z0-9_.:-]{1,60})"
_ATTRIBUTE = rf"\s+(?:id|call_id|name|index)\s*=\s*{_VALUE}"
_SPECIAL = (
    r"<[|｜](?:(?:tool|function)[_▁]calls?(?:[_▁](?:section|begin|start))*|python_tag|assistant"
    r"|action_start|plugin|interpreter|begin_of_(?:solution|box)|START_(?:ACTION|RESPONSE))[|｜]>"
)
_TO = r"(?: to=(?:functions\.)?[a-z0-9_]{1,60})?"
_HARMONY = (  # the header of a message of gpt-oss
    rf"(?:<\|start\|>assistant)?{_TO}<\|channel\|>(?:final|commentary){_TO}"
    r"\s*(?:(?:<\|constrain\|>)?\s*json)?\s*<\|message\|>"
)
_CALL_TAG = (
    rf"(?:<{_CALL_NAME}(?:=[a-z0-9_.:-]{{1,60}})?(?:{_ATTRIBUTE}){{0,3}}\s*>|(?:{_SPECIAL})+"
    rf"|<\|tool_call>|\[TOOL_(?:CALLS?|REQUEST)\]|{_HARMONY})"
)
_FENCE_START = r"(?:`{3,}|~{3,})[ \t]*+[a-z0-9_+#.-]{0,60}"
_WHOLE_FENCE = r"(?:`{3,}|~{3,})[ \t]*+(?:[a-z0-9+#]{1,20}(?:[_-](?:calls?|code|use))?)?"
_END_WORDS = (
    r"im|end|eo[tmsd]|id|of|text|turn|token|sentence|return|tools?|function|calls?|argument|section"
    r"|action|response|message|plugin|endoftext|endofturn|role|solution|box"
)
_END_TOKEN = (
    r"</s>|<(?:_?(?:eos|eot|end)(?:_of_(?:turn|text|utterance))?\|?|turn\||tool_call\||s|pad|unk)>"
    rf"|<\|im_start\|>assistant"
    rf"|<[|｜]/?(?!(?:tools?|function)[|｜])(?:(?:{_END_WORDS})[_▁]?){{1,6}}[|｜]>"
    r"|\[(?:/TOOL_(?:CALLS?|REQUEST)|END_TOOL_(?:CALLS?|REQUEST)|EOS|\|endofturn\|)\]"
)
_END = rf"[\s{INVISIBLE}]|`{{3,}}|~{{3,}}|</{_CALL_NAME}\s*>|{_END_TOKEN}"
_STOP_TOKEN = r"<\|(?:user|observation)\|>"  # GLM ends a turn with the speaker of the next one
_SPACE = rf"[\s{INVISIBLE}]*+"
_WHOLE_START = re.compile(
    rf"(?:{_CALL_TAG}{_SPACE}(?:{_WHOLE_FENCE})?|{_WHOLE_FENCE}(?:{_SPACE}{_CALL_TAG})?)?",
    re.IGNORECASE,
)
_BLOCK_START = re.compile(
    rf"{_SPACE}(?:{_CALL_TAG}{_SPACE})*+(?:{_FENCE_START}{_SPACE})?", re.IGNORECASE
)
_WHOLE_END = re.compile(rf"(?:{_END})*+", re.IGNORECASE)
_ANSWER_END = re.compile(rf"(?:{_END}|{_STOP_TOKEN})*+", re.IGNORECASE)
_QUOTES_NEXT_LINE = re.compile(
    # A quotation mark, or text before a fence:
    r"""(?:(?:^|[\s:(\[])["'“„«‹「『《‘`]|\S.*`{3,}[\w+#.-]{0,60}"""
    # An opening tag:
    r"|(?<![\w<])<(?!(?:br|hr|img|wbr)\b)[A-Za-z_][\w:.-]{0,60}(?:[\s=][^<>]{0,200})?>"
    # The label of another speaker, possibly emphasized:
    r"|^\W*(?:user|human|customer|system|observation|(?:tool|function|search)[ _-]?"
    r"(?:results?|outputs?|responses?))\s*[:：][*_]*)\s*\Z",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t\ufeff]*(?:`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_OTHER_SPEAKER = re.compile(
    r"<\|(?:user|system|observation|tool|START_TOOL_RESULTS?)\|>|<｜(?:User|tool▁output\w*)｜>"
    r"|\[TOOL_RESULTS\]"
    r"|<(?:\|(?:im_start|start|start_header_id)\|>|start_of_turn>)\s*(?:user|system|tool|ipython)\b"
    r"|(?:^|\n)\[tool result for [^\n\]]*\]\s*\n",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"\|>\s*assistant\b|<\|assistant\|>|<start_of_turn>model\b|<｜Assistant｜>", re.IGNORECASE
)
_ENCLOSURES = (
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"(?<![\w.~*/])/\*"), re.compile(r"\*/")),  # `src/*` does not start a comment
    (re.compile(r"<\|channel\|>analysis\b[^\n<]{0,100}<\|message\|>"), re.compile(r"<\|end\|>")),
    (_OTHER_SPEAKER, _ASSISTANT),
)
"""Start and end of text that is not the model's answer."""
