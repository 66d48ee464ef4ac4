import pytest

from stage0_gateway.messages import Message
from stage0_gateway.offline.chatting import IDENTITY, ask_for, asks_who, chat
from stage0_gateway.offline.reading import read
from stage0_gateway.request import ChatRequest, ToolSpec

RULES = "I am a set of rules, not a language model"
MANY = tuple(ToolSpec(f"tool_{number}", "") for number in range(11))


def reply(*texts: str, tools: tuple[ToolSpec, ...] = (), choice: str | None = None) -> str:
    """The reply to a conversation in which user and assistant take turns."""
    roles = (Message.user, Message.assistant)
    messages = tuple(roles[index % 2](text) for index, text in enumerate(texts))
    return chat(read(ChatRequest("teacher", messages, tools, tool_choice=choice)))


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("Who are you?", True),
        ("Tell me, what exactly are you", True),
        ("Are you really a robot?", True),
        ("What model is this?", True),
        ("你是谁？", True),
        ("What are you doing?", False),
        ("Are you ready?", False),
        ("Who is this?", False),
    ],
)
def test_a_question_for_what_is_answering_is_told_from_its_likes(question: str, is_asked: bool) -> None:
    assert asks_who(question) is is_asked
    assert (reply(question) == IDENTITY) is is_asked


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What's my dog?", "Your dog is Rex: you said so in this conversation."),
        ("Do you know my favourite tea?", "Your favourite tea is green: you said so in this conversation."),
        ("What is my name?", "Your name is Bob: you said so in this conversation."),
        ("Tell me my age.", "I do not know your age: no message that I was sent says it."),
        ("What did I say last?", 'The last thing you said that I can see is: "Please call me Bob"'),
        ("What have I told you before?", 'The last thing you said that I can see is: "Please call me Bob"'),
        (
            "What was my first question?",
            'The first thing you said that I can see is: "My dog is Rex, my favourite tea: green. I am Ada"',
        ),
    ],
)
def test_what_was_said_is_found_again_and_what_was_said_last_counts(question: str, told: str) -> None:
    said = "My dog is Rex, my favourite tea: green. I am Ada"
    assert reply(said, "Good.", "Please call me Bob", "Good.", question) == told


def test_what_a_tool_or_the_host_said_is_not_remembered_as_the_persons_word() -> None:
    notes = ("[Tool result for a]\nmy dog is Rex", "Good.", "[Feedback] my dog is Rex", "Good.")
    assert reply(*notes, "What is my dog?") == "I do not know your dog: no message that I was sent says it."


def test_where_nothing_was_said_before_it_says_so() -> None:
    assert reply("What did I say first?") == "I see no earlier message of yours in what I was sent."
    assert reply("Summarize our talk.") == "I see no earlier message to summarize."


def test_at_most_ten_tools_are_named_and_a_greeting_is_returned() -> None:
    ten = ", ".join(f"tool_{number}" for number in range(10))
    assert reply("Why?", tools=MANY[:10]) == f"{RULES}, and none of my tools ({ten}) fits this question."
    assert reply("Hi, why?", tools=MANY) == (
        f"Hello! {RULES}, and none of my tools ({ten}, …) fits this question."
    )


def test_tools_that_may_not_be_called_are_not_spoken_of() -> None:
    told = f'Hello! You said: "Hi". I see 1 message. {RULES}, so I only repeat it.'
    assert reply("Hi", tools=MANY, choice="none") == told


def test_an_empty_question_is_told_with_what_was_seen() -> None:
    assert reply("Tea?", "Yes.", "") == f"You asked nothing. I see 3 messages. {RULES}."


def test_what_is_missing_is_asked_for_in_words_and_not_without_end() -> None:
    assert ask_for("add", ["first_number", "b"]) == (
        "Which first number and which b do you mean? I need it to call add."
    )
    assert ask_for("add", ["x" * 900]) == f"Which {'x' * 200} … do you mean? I need it to call add."
