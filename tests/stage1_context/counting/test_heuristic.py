import base64
import json
import os
import random
import statistics
import urllib.parse
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage1_context import ApproximateCounter, ContextError, TiktokenCounter
from tests.stage1_context.counting.samples import CHINESE, JAPANESE
from tests.tables import for_each

COUNTER = ApproximateCounter()
HERE = Path(__file__)

# name: (text, its tokens in cl100k_base, in o200k_base), the counts measured with `encode_ordinary`
# of tiktoken 0.14.
MEASURED = {
    "english": (
        "The committee met on Tuesday to discuss the budget, but nobody could agree on what it ought to cost.",
        21,
        21,
    ),
    "chinese": ("今天上海的天气怎么样？请用中文回答，并且说明明天是否需要带伞。", 33, 21),
    "traditional chinese": ("請問這間圖書館幾點開門？我想借閱關於臺灣歷史的書籍。", 47, 27),
    "japanese": ("東京の天気を教えてください。明日は傘が必要ですか。", 25, 18),
    "code": (
        "def area(radius):\n    if radius < 0:\n        raise ValueError\n    return math.pi * radius ** 2\n",
        25,
        26,
    ),
    "minified code": (
        "function f(a,b){for(var i=0;i<a.length;i++){if(a[i]===b){return!0}}return!1}",
        30,
        30,
    ),
    "pretty json": (
        '{\n  "city": "Shanghai",\n  "days": 3,\n  "units": null,\n  "tags": [\n    "rain",\n    "wind"\n  ]\n}',
        38,
        37,
    ),
    "compact json": (
        '{"id":48213,"name":"Maria","active":true,"scores":[1.5,22,303],"note":null}',
        28,
        28,
    ),
    "url": (
        "https://www.example.com/articles/2024/05/17/how-to-read?utm_source=mail&id=7f3a9c21&page=2",
        33,
        33,
    ),
    "base64": (
        "9bFlIkpYt5HfavHYMD5hzcS7hsPRxCcQPDRMQYnrLx571dR+RG/OwqPYEXNhEOV4G8zOppZ2LmEWxunJLZm/NYwuBxiCLOR8",
        65,
        62,
    ),
    "hex": ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 43, 43),
    "emoji": ("😀🎉🚀🐍✅❤️👍🏽👨\u200d👩\u200d👧🇯🇵1️⃣", 46, 26),
    "digits": ("31415926535897932384626433832795", 11, 11),
    "camel case": ("getUserAccountBalanceByName", 4, 6),
    "capitals": ("MAX_RETRY_COUNT = DEFAULT_TIMEOUT", 6, 7),
    "indentation": ("\n\t\t\tif x:\n\t\t\t\treturn y\n        else:\n            pass", 14, 14),
    "korean": ("오늘 서울의 날씨가 어떻습니까? 내일은 비가 올까요?", 34, 18),
    "russian": ("Какая сегодня погода в Москве? Завтра будет дождь?", 27, 14),
    "arabic": ("ما هو الطقس اليوم في القاهرة؟", 21, 8),
    "hindi": ("आज दिल्ली में मौसम कैसा है?", 28, 8),
    "accents": ("áéíóúñ", 6, 6),
    "german": (
        "Die Lieferung verzögert sich voraussichtlich um zwei Werktage, weil das Lager derzeit umgebaut wird.",
        29,
        23,
    ),
    "finnish": (
        "Toimitus viivästyy todennäköisesti kaksi arkipäivää, koska varastoa kunnostetaan parhaillaan.",
        37,
        29,
    ),
    "polish": (
        "Dostawa opóźni się prawdopodobnie o dwa dni robocze, ponieważ magazyn jest obecnie przebudowywany.",
        38,
        30,
    ),
    "turkish": (
        "Depo şu anda yenilendiği için teslimat büyük olasılıkla iki iş günü gecikecek.",
        30,
        23,
    ),
    "vietnamese": (
        "Việc giao hàng có thể bị chậm hai ngày làm việc vì kho đang được sửa chữa.",
        34,
        20,
    ),
    "greek": ("Η παράδοση θα καθυστερήσει πιθανότατα δύο ημέρες.", 47, 17),
    "hebrew": ("המשלוח יתעכב כנראה ביומיים בגלל שיפוץ המחסן.", 44, 19),
    "thai": ("วันนี้อากาศที่กรุงเทพเป็นอย่างไรบ้าง", 32, 13),
    "list of digits": ("[1, 0, 7, 4, 4, 9, 2, 0, 1, 1, 8, 3, 5, 6]", 42, 42),
    "list of decimals": ("[0.0123, -0.4521, 0.9934, -0.0008, 0.2717]", 30, 30),
    "bytes in hex": ("3f 9a 00 c4 7e 12 b8 5d e1 06 a7 90 2c f3", 32, 32),
    "full width": ("ＡＢＣ１２３！", 10, 6),
    "half-width kana": ("ﾃｽﾄｶﾅ", 10, 10),
    "table of numbers": ("   12.50     7\n  103.25    41\n", 18, 18),
}
HIGH = {"camel case", "capitals", "digits"}  # a token holds several capitals or digits


@for_each("text, cl100k, o200k", MEASURED.values())
def test_a_count_is_at_most_5_percent_below_the_measured_tokens(text, cl100k, o200k):
    assert COUNTER.count(text) >= 0.95 * max(cl100k, o200k)


@for_each("name", [name for name in MEASURED if name not in HIGH])
def test_a_count_is_at_most_60_percent_above_the_measured_tokens(name):
    text, *measured = MEASURED[name]
    assert COUNTER.count(text) <= 1.6 * max(measured) + 2


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=10))
def test_chinese_text_has_about_one_token_per_character(text):
    assert 0.88 * len(text) <= COUNTER.count(text) <= 2.4 * len(text) + 1


@for_each("text", ["\n \t" * 1000, " " * 10_000, "\t" * 10_000])
def test_long_whitespace_has_a_minimum_count(text):
    # No token of OpenAI's encodings is longer than 128 characters.
    assert COUNTER.count(text) >= len(text) // 128


@for_each(
    "text",
    ["", "a", "\0", "\ud800", "\U000e0041", "\x1c", "\x85", "_", ".", "._a", " ."],
)
def test_a_short_text_of_any_characters_has_between_one_and_six_tokens(text):
    assert 1 <= COUNTER.count(text) <= 6


@for_each("unit", ["a", "aB3", " ", "\n", " \n", "!?", "=", "7", "中", "\ud800", "._", " 1", "A"])
def test_a_text_of_200_000_repeated_characters_is_counted_in_linear_time(unit):
    # No timer is needed: with quadratic time, this test would not end.
    assert COUNTER.count(unit * (200_000 // len(unit))) >= 200_000 // 128


@given(st.text(), st.text())
def test_a_count_is_positive_and_grows_with_the_text(text, more):
    assert 1 <= COUNTER.count(text) <= COUNTER.count(text + "\n" + more)


LAYOUT = st.text(st.sampled_from(list("aZ09 ._\n\t\r/{}\"':中あ😀\ufe0f")))


@given(LAYOUT, LAYOUT)
def test_a_count_grows_with_the_text_for_any_layout(text, more):
    assert COUNTER.count(text) <= COUNTER.count(text + "\n" + more)


# The next tests compare with tiktoken if its files are installed: pieces of 2,000 characters of
# each kind.


def pieces(text, step=2000):
    return [text[start : start + 2000] for start in range(0, len(text) - 1999, step)]


def code():
    files = sorted(path for path in Path(json.__file__).parent.parent.glob("[a-i]*.py"))
    files += sorted(HERE.parents[3].glob("stage*/**/*.py"))
    return [piece for path in files for piece in pieces(path.read_text("utf-8"), 20_000)]


def english():
    from pydoc_data.topics import topics

    prose = "\n".join(topics[name] for name in sorted(topics))
    return [piece for piece in pieces(prose, 6000) if "+---" not in piece]  # no tables


def records():
    dice = random.Random(1)
    for number in range(400):
        yield {
            "id": dice.randrange(10**6),
            "uuid": str(uuid.UUID(int=dice.getrandbits(128))),
            "name": dice.choice(
                ["Maria Lopez", "James Carter", "Yuki Tanaka", "Olga Ivanova", "李伟"]
            ),
            "email": f"user{number}@example.com",
            "active": dice.random() < 0.5,
            "balance": round(dice.random() * 10_000, 2),
            "tags": dice.sample(["new", "paid", "trial", "archived", "internal"], 2),
            "address": {
                "street": f"{number} Main Street",
                "zipCode": None,
                "position": [dice.random(), 2],
            },
            "createdAt": f"2024-0{dice.randrange(1, 10)}-1{dice.randrange(10)}T12:30:00Z",
        }


def urls():
    dice = random.Random(2)
    words = [
        "news",
        "product",
        "library",
        "bulletin",
        "oakridge",
        "harbour",
        "tenants",
        "gazette",
        "kettle",
    ]
    made = []
    for _ in range(300):
        one, two, three = dice.sample(words, 3)
        token = base64.urlsafe_b64encode(dice.randbytes(18)).decode()
        made += [
            f"https://www.{one}{two}.com/{two}/{one}-{two}-{three}?utm_source={three}&utm_campaign=spring_2024",
            f"https://api.example.org/v2/{one}s/{uuid.UUID(int=dice.getrandbits(128))}?page={dice.randrange(99)}",
            f"https://github.com/{one}/{two}/blob/{dice.getrandbits(160):040x}/src/{three}.py#L{dice.randrange(900)}",
            f"https://www.youtube.com/watch?v={token[:11]}&t={dice.randrange(900)}s",
            f"https://cdn.example.net/{one}/{token}.jpg?expires={dice.randrange(10**9, 2 * 10**9)}",
            "https://zh.wikipedia.org/wiki/"
            + urllib.parse.quote(dice.choice(["上海", "人工智能", "长江大桥"])),
        ]
    return pieces("\n".join(made))


def base64_texts():
    data = random.Random(3).randbytes(30_000)
    wrapped = base64.encodebytes(data).decode()
    return (
        pieces(base64.b64encode(data).decode())
        + pieces(wrapped)
        + pieces(base64.urlsafe_b64encode(CHINESE.encode() + JAPANESE.encode()).decode())
    )


def emoji():
    dice = random.Random(4)
    kinds = [
        [chr(point) for point in range(0x1F600, 0x1F650)],
        [chr(point) for point in range(0x1F300, 0x1F5FF)],
        ["👍🏽", "👩🏿", "🙏🏻", "💪🏾", "👋🏼"],
        ["👨‍👩‍👧", "👩‍💻", "🏳️‍🌈", "🧑‍🚀", "❤️‍🔥"],
        ["🇯🇵", "🇨🇳", "🇩🇪", "🇧🇷", "🇺🇸"],
        ["❤️", "☀️", "✅", "⭐", "⚠️", "1️⃣", "™️", "✨"],
    ]
    kinds.append([text for kind in kinds for text in kind])
    return [
        piece
        for kind in kinds
        for gap in ("", " ", "\n")
        for piece in pieces(gap.join(dice.choice(kind) for _ in range(4000)))[:2]
    ]


REAL = {
    "English": english,
    "Chinese": lambda: pieces(CHINESE * 2, 300),
    "Japanese": lambda: pieces(JAPANESE * 2, 300),
    "code": code,
    "pretty JSON": lambda: pieces(json.dumps(list(records()), indent=2, ensure_ascii=False)),
    "compact JSON": lambda: pieces(
        json.dumps(list(records()), separators=(",", ":"), ensure_ascii=False)
    ),
    "URLs": urls,
    "base64": base64_texts,
    "emoji": emoji,
}


@pytest.fixture(scope="module")
def encodings():
    try:
        return [TiktokenCounter("cl100k_base"), TiktokenCounter("o200k_base")]
    except ContextError:
        pytest.skip(
            f"no files of cl100k_base and o200k_base in {os.environ.get('TIKTOKEN_CACHE_DIR')!r}"
        )


@for_each("kind", REAL)
def test_counts_of_real_texts_are_at_most_5_percent_low_and_on_average_60_percent_high(
    encodings, kind
):
    texts = REAL[kind]()
    ratios = [
        COUNTER.count(text) / max(encoding.count(text) for encoding in encodings) for text in texts
    ]
    assert min(ratios) >= 0.95
    assert statistics.mean(ratios) <= 1.6


def test_the_measured_counts_are_those_of_tiktoken(encodings):
    assert {
        name: (text, *(encoding.count(text) for encoding in encodings))
        for name, (text, *_) in MEASURED.items()
    } == MEASURED
