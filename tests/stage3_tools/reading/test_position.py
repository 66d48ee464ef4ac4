"""The position of JSON in a reply: alone, at the beginning of a block, or a mention."""

from stage3_tools.reading.position import begins_block, is_answer, is_whole
from tests.tables import for_each

JSON = '{"tool": "f"}'

WHOLE = [
    "@",
    " \n\t@\r\n",
    "\ufeff@\u200b",
    "```\n@\n```",
    "```json\n@\n```\n",
    "~~~json\n@\n~~~",
    "```json @```",
    "<tool_call>@</tool_call>",
    '<tool_call id="call_1" name=f>\n@\n</tool_call>',
    "<function=f>@</function>",
    "<ns:invoke>@</ns:invoke>",
    "[TOOL_CALLS]@",
    "[TOOL_REQUEST]@[END_TOOL_REQUEST]",
    "<|python_tag|>@<|eom_id|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>@<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|channel|>final<|message|>@<|return|>",
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>@<|call|>",
    "<|channel|>commentary json<|message|>@<|call|>",
    "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>@<|call|>",
    "<|action_start|><|plugin|>\n@<|action_end|>",
    "<|begin_of_solution|>@<|end_of_solution|>",
    "<|tool_call>@<tool_call|>",
    "<tool_call>\n```json\n@\n```\n</tool_call>",
    "``` json\n@\n```",
    "```tool_code\n@\n```",
    "```\n<answer>@</answer>\n```",
    "@<|im_end|>\n<|endoftext|>",
    "@</s>",
    "@<end_of_turn>",
    "@<turn|>",
    "@<end_of_utterance>",
    "@<|role_end|>",
]
BESIDE_TEXT = [
    "Sure.\n@",
    "@\nDone.",
    "Sure: <tool_call>@</tool_call>",
    "<tool_call>f\n@</tool_call>",
    "<tool_call>@</tool_call> Done.",
    "```text do not run\n@\n```",
    "```\nMail:\n@\n```",
    "```quoted-do-not-run\n@\n```",
    "```this_is_quoted\n@\n```",
    "<quote:tool_call>@</quote:tool_call>",
    "<tool_call>@</tool=this_is_quoted>",
    '<tool_call type="example">@</tool_call>',
    "<|channel|>commentary to=user.quoted<|message|>@",
    "@<|tool|>",
    "@<|user|>",
    "@<|observation|>",
    "<footer>@</footer>",
    '<answer note="do not run this">@</answer>',
    "<tool_result>@</tool_result>",
    "<tool_response>@</tool_response>",
    "[TOOL_RESULTS]@",
    "<|tool|>@",
    "<|user|>@",
    "<|im_start|>user\n@",
    "<answer><tool_call>@</tool_call></answer>",
    "```\n```json\n@\n```\n```",
    "@<|do not run this|>",
    "@ // the page says so",
    "# example\n@",
    "> @",
    "- @",
    '"@"',
    "`@`",
    "</think>\n@",
    "<think>\n@",
]


def at(text):
    start = text.index("@")
    return text.replace("@", JSON), start, start + len(JSON)


@for_each("text", WHOLE)
def test_json_is_whole_inside_of_one_fence_one_call_tag_and_end_tokens(text):
    assert is_whole(*at(text))


@for_each("text", BESIDE_TEXT)
def test_json_is_not_whole_beside_anything_else(text):
    assert not is_whole(*at(text))


@for_each(
    "text, expected",
    [
        ("@", True),
        ("Sure.\n@", True),
        ("Sure.\n\n  @", True),
        ("Sure.\n```json\n@", True),
        ("Sure.\n```json @", True),
        ("Sure.\n<tool_call>@", True),
        ("Sure.\n<decision>\n  <tool_call>\n@", True),
        ("List<int>\n@", True),
        ("Line<br>\n@", True),
        ("Assistant:\n@", True),
        ("Sure: @", False),
        ("Sure: <tool_call>@", False),
        ("Sure: <tool_call>\n@", False),
        ("The page:\n<footer>\n@", False),
        ('The page:\n<message role="user">\n```\n@', False),
        ("The page: ```\n@", False),
        ("> ```json\n@", False),
        ('It says: "\n@', False),
        ("User:\n@", False),
        ("**Human:**\n\n@", False),
        ("Fine.\nObservation:\n```json\n@", False),
        ("Tool result:\n<answer>\n@", False),
        ("x" * 2000 + "\n@", True),
        ("x" * 2000 + " @", False),
    ],
)
def test_a_block_begins_at_a_line_a_fence_or_a_call_tag_that_nothing_quotes(text, expected):
    assert begins_block(text.replace("@", JSON), text.index("@")) is expected


@for_each(
    "text, expected",
    [
        ("Sure.\n@", True),
        ("Sure.\n```json\n@\n```", True),
        ("Sure.\n@</tool_call><|im_end|>", True),
        ("Sure.\n@<|observation|>", True),
        ("Sure.\n@<|user|>", True),
        ("Sure.\n@<|user|>Hi", False),
        ("Sure <|channel|>analysis<|message|>The page says\n@", False),
        ("Sure.\n@\nDone.", False),
        ("Sure.\n@</footer>", False),
        ("Sure.\n@" + "\n" * 2000, True),
        ("Sure.\n@" + "`" * 2000, False),
        ("<!-- from the page\n@", False),
        ("<!-- from the page -->\n@", True),
        ("```\nFrom: Mallory\n\n@\n```", False),
        ("<|im_start|>user\nHi\n@", False),
        ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n@", True),
    ],
)
def test_an_answer_begins_a_block_and_ends_the_reply_outside_of_other_speech(text, expected):
    assert is_answer(*at(text)) is expected
