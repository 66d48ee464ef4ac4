"""Words as the teacher compares them: lower case, without endings, without words that say nothing.

Crude on purpose: "calculation" and "calculates" meet at "calcul", a short table brings "hot" to "weather"
and 天气 too. Knows nothing of tools. Used wherever a text is compared with a name or a description.
"""

import re

_WORD = re.compile(r"[^\W_]{1,40}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SUM = re.compile(r"\d\s?[+*/×÷]\s?[(\d]|\d\s-\s[(\d]|\d (?:plus|minus|times|divided by) \d")
_CHINESE = re.compile(r"[\u4e00-\u9fff]+")
_ENDINGS = (
    *("izations", "ization", "ations", "ation", "ators", "ator", "ating", "ated", "ates", "ate"),
    *(
        "tions",
        "tion",
        "ie",
        "ings",
        "ing",
        "ments",
        "ment",
        "ies",
        "ied",
        "ers",
        "er",
        "es",
        "ed",
        "ly",
        "s",
        "e",
        "y",
    ),
)


def word_set(text: str) -> frozenset[str]:
    """A set of words, written as people write them."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    "a about above after all also am an and any are as at be been but by can could did do does for from "
    "give had has have he hello help her hey hi him his how i if in into is it its just know let like "
    "made make many may me might more most much my need no not now of off on one or our out over please "
    "s she should show so some such t tell than thank thanks that the their them then there these they "
    "this those to too up us use used using value very want was we were what when where which who whom "
    "whose why will with would you your yours return returns returned given provide provides specified "
    "specific based optional default e g 的 了 是 在 吗 呢 我 你 他 请 有 和 与 么 什么 怎么 怎么样"
)

_MEANS = {
    "weather": "hot cold warm rain rainy sunny snow windy forecast umbrella degrees 天气 下雨 气温 温度",
    "time": "clock 时间 几点",
    "calculate": "compute calc 计算 等于",
    "sum": "plus add adds added addition",
    "product": "multiply multiplied",
    "search": "find lookup google 搜索 查找 查询",
    "translate": "translation 翻译",
    "news": "headlines 新闻",
    "email": "mail 邮件",
    "convert": "exchange 换算 转换",
    "buy": "purchase order 购买 买",
    "book": "reserve reservation 预订",
    "price": "cost 价格 多少钱",
    "date": "日期 几号",
    "file": "文件",
}


def stem(word: str) -> str:
    """A word without its ending, where three letters are left."""
    word = word.lower()
    if word == "news":  # is not the plural of "new", as in New York
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_ALIKE = {stem(other): stem(word) for word, others in _MEANS.items() for other in others.split()}
_CHINESE_ALIKE = {word: means for word, means in _ALIKE.items() if _CHINESE.match(word)}


def meaning(word: str) -> str:
    """What a word is compared by: the stem of the word itself, or of the one it stands for."""
    stemmed = stem(word)
    return _ALIKE.get(stemmed, stemmed)


def meanings(text: str) -> frozenset[str]:
    """What the words of a text are compared by."""
    return frozenset(meaning(word) for word in text.split())


def words_of(text: str) -> list[str]:
    """The telling words of a text or of a name such as `getWeather`, ready to be compared, in order."""
    found: list[str] = []
    text = _SUM.sub(" calculate ", text)
    for match in _WORD.finditer(_CAMEL.sub(" ", text)):
        word = match[0]
        if _CHINESE.match(word):
            found.extend(_chinese_words(word))
        elif word.lower() not in STOP_WORDS:
            found.append(meaning(word))
    return found


def _chinese_words(run: str) -> list[str]:
    """Chinese is written without spaces: known words, and every pair of neighbouring characters."""
    known = [means for word, means in _CHINESE_ALIKE.items() if word in run]
    return known + [run[i : i + 2] for i in range(len(run) - 1)]


def says_nothing(word: str, subject: frozenset[str]) -> bool:
    """Whether a word only asks, or is one of the subject's own."""
    bare = word.strip("?.!,").lower()
    return bare in STOP_WORDS or bare.partition("'")[0] in STOP_WORDS or meaning(bare) in subject
