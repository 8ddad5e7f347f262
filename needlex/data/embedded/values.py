"""The pools that templates name in braces: lists of `words.txt`, closed lists, numbers, made-up values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from random import Random

from needlex.data.embedded.held_out import value_held_out
from needlex.data.embedded.pools import (
    Closed,
    Decimal,
    Made,
    Number,
    Pool,
    Several,
    Verbatim,
    Words,
    an,
    pick,
    spell,
)

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

_LENGTHS = {
    "meters": "meter", "metres": "meter", "kilometers": "kilometer", "km": "kilometer", "miles": "mile",
    "feet": "foot", "inches": "inch", "yards": "yard", "centimeters": "centimeter", "cm": "centimeter",
}  # fmt: skip
_WEIGHTS = {
    "grams": "gram", "kilograms": "kilogram", "kilos": "kilogram", "kg": "kilogram", "pounds": "pound",
    "lbs": "pound", "ounces": "ounce", "tons": "ton",
}  # fmt: skip
_VOLUMES = {
    "liters": "liter", "milliliters": "milliliter", "ml": "milliliter", "gallons": "gallon", "cups": "cup",
    "pints": "pint", "tablespoons": "tablespoon", "teaspoons": "teaspoon",
}  # fmt: skip
_DEGREES = {
    "celsius": "celsius", "degrees celsius": "celsius", "fahrenheit": "fahrenheit",
    "degrees fahrenheit": "fahrenheit", "kelvin": "kelvin",
}  # fmt: skip
_CURRENCIES = {
    "dollars": "USD", "US dollars": "USD", "euros": "EUR", "pounds sterling": "GBP", "British pounds": "GBP",
    "yen": "JPY", "Japanese yen": "JPY", "Swiss francs": "CHF", "Canadian dollars": "CAD", "rupees": "INR",
    "Australian dollars": "AUD", "yuan": "CNY", "Mexican pesos": "MXN",
}  # fmt: skip


def _same(*names: str) -> dict[str, str]:
    """A closed list whose canonical values are its texts with underscores."""
    return {name: name.replace(" ", "_").replace("-", "_") for name in names}


def _pair(kind: str, values: Mapping[str, str]) -> Closed:
    """`feet to meters`: one text that gives two arguments."""
    return Closed({
        f"{a}{joint}{b}": {f"from_{kind}": values[a], f"to_{kind}": values[b]}
        for a in values for b in values for joint in (" to ", " into ") if values[a] != values[b]
    })  # fmt: skip


def _closed() -> dict[str, Pool]:
    return {name: Closed(values) for name, values in {
        "mode": {
            "by car": "driving", "driving": "driving", "on foot": "walking", "walking": "walking",
            "by bike": "cycling", "cycling": "cycling", "by bus": "transit", "by public transport": "transit",
        },
        "facing": {"front": "front", "back": "back", "rear": "back"},
        "urgent": {"an urgent": {"urgent": True}, "a high priority": {"urgent": True}},
        "shuffled": {text: {"shuffle": True} for text in ("shuffled", "on shuffle", "in random order")},
        "repeat": {
            "every day": "daily", "daily": "daily", "on weekdays": "weekdays", "every weekday": "weekdays",
            "on weekends": "weekends", "every weekend": "weekends",
        },
        "size": _same("small", "medium", "large", "extra large"),
        "drink": _same(
            "latte", "cappuccino", "espresso", "flat white", "americano", "mocha", "hot chocolate"
        ),
        "milk": {"oat milk": "oat", "soy milk": "soy", "almond milk": "almond", "whole milk": "whole"},
        "cabin": _same("economy", "business", "first"),
        "account": _same("checking", "savings", "credit card"),
        "setting": {
            **_same("wifi", "bluetooth", "airplane mode", "do not disturb", "dark mode", "mobile data"),
            "wi-fi": "wifi", "flight mode": "airplane_mode", "location services": "location",
            "the hotspot": "hotspot",
        },
        "category": {
            **_same("sports", "politics", "technology", "business", "science", "health", "entertainment"),
            "tech": "technology",
        },
        "quality": _same("hd", "full hd", "4k"),
        "diet": _same("vegan", "vegetarian", "gluten free", "keto"),
        "vehicle": {"taxi": "standard", "cab": "standard", "van": "van", "wheelchair taxi": "accessible"},
        "meal": {**_same("breakfast", "lunch", "dinner"), "a snack": "snack"},
        "meal_name": _same("breakfast", "lunch", "dinner", "snack"),
        "sides": {str(n): n for n in (4, 6, 8, 10, 12, 20)},
        "genre": _same("jazz", "rock", "pop", "classical", "news", "hip hop", "country"),
    }.items()}  # fmt: skip


def _numbers() -> dict[str, Pool]:
    return {
        "hours": Number(1, 24, spelled=0.15, favourites=(1, 2, 3, 4)),
        "minutes": Number(1, 100, spelled=0.15, favourites=(5, 10, 15, 20, 25, 30, 45)),
        "seconds": Number(1, 100, spelled=0.1, favourites=(10, 15, 20, 30, 45, 90)),
        "percent": Number(0, 100, favourites=(10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90)),
        "temperature": Decimal(5, 32, 1, whole=0.85),
        "kelvin": Number(2000, 6500, 100),
        "few": Number(2, 9, spelled=0.4),
        "days": Number(2, 14, spelled=0.3),
        "count": Number(2, 12, spelled=0.4),
        "quantity": Number(2, 6, spelled=0.5),
        "people_count": Number(2, 12, spelled=0.5),
        "amount": Decimal(2, 900, 2, whole=0.7),
        "tip_percent": Number(5, 25),
        "measure": Decimal(2, 500, 1, whole=0.7),
        "distance": Decimal(2, 30, 1, whole=0.5),
        "radius": Decimal(2, 20, 1, whole=0.7),
        "weight": Decimal(45, 120, 1, whole=0.4),
        "milliliters": Number(100, 900, 50),
        "duration": Number(10, 120, 5, favourites=(15, 30, 45, 60, 90)),
        "low": Number(0, 10),
        "high": Number(11, 1000, favourites=(20, 50, 100, 1000)),
    }


def _time(random: Random) -> str:
    kind, hour = random.random(), random.randint(1, 12)
    half = "am" if random.random() < 0.45 else "pm"
    if kind < 0.4:
        return f"{hour} {half}" if random.random() < 0.6 else f"{hour}{half}"
    if kind < 0.7:
        return f"{hour}:{pick(random, (5, 10, 15, 20, 30, 45, 50)):02d} {half}"
    if kind < 0.85:
        return f"{random.randint(0, 23)}:{random.randint(0, 11) * 5:02d}"
    if kind < 0.95:
        return pick(random, ("half past ", "quarter past ", "quarter to ")) + spell(hour)
    return pick(random, ("noon", "midnight"))


def _ordinal(day: int) -> str:
    return f"{day}" + ("th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th"))


def _date(random: Random) -> str:
    kind = random.random()
    if kind < 0.3:
        return pick(random, ("today", "tomorrow", "tomorrow", "the day after tomorrow"))
    if kind < 0.65:
        return pick(random, WEEKDAYS)
    if kind < 0.75:
        return "next " + pick(random, WEEKDAYS)
    day, month = random.randint(1, 28), pick(random, MONTHS)
    return pick(random, (f"{month} {day}", f"{month} {_ordinal(day)}", f"the {_ordinal(day)} of {month}"))


def _before_date(value: str) -> str:
    return "" if value.startswith(("today", "tomorrow", "the day after", "next ")) else "on "


def _full_name(random: Random) -> str:
    return f"{pick(random, words('first_name'))} {pick(random, words('last_name'))}"


def _person(random: Random) -> str:
    kind = random.random()
    if kind < 0.6:
        return pick(random, words("first_name"))
    return _full_name(random) if kind < 0.8 else pick(random, words("relation"))


def _email(random: Random) -> str:
    name = pick(random, words("first_name")).lower()
    tail = pick(random, ("", "", f".{pick(random, words('last_name')).lower()}", str(random.randint(1, 99))))
    host = pick(random, ("example.com", "mail.net", "post.org", "inbox.io", "company.com", "school.edu"))
    return f"{name}{tail}@{host}"


def _website(random: Random) -> str:
    first = pick(random, ("daily", "green", "happy", "my", "open", "fast", "blue", "city", "home", "north"))
    second = pick(random, ("news", "recipes", "garden", "bikes", "books", "weather", "maps", "music", "art"))
    return f"{first}{second}.{pick(random, ('com', 'org', 'net', 'io', 'co.uk'))}"


def _phone(random: Random) -> str:
    return pick(random, (
        f"555-{random.randint(0, 9999):04d}",
        f"{random.randint(200, 989)}-555-{random.randint(0, 9999):04d}",
        f"0{random.randint(20, 99)} {random.randint(1000000, 9999999)}",
    ))  # fmt: skip


def _code(letters: int, digits: int) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        head = "".join(pick(random, "ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(letters))
        return head + "".join(pick(random, "0123456789") for _ in range(digits))

    return make


def _expression(random: Random) -> str:
    a, b, c = random.randint(2, 999), random.randint(2, 99), random.randint(2, 20)
    sign, other = pick(random, "+-*/"), pick(random, "+-*")
    return pick(random, (
        f"{a} {sign} {b}", f"{b} {sign} {c}", f"{a}{sign}{c}", f"{a} {sign} {b} {other} {c}",
        f"({a} {other} {b}) {sign} {c}", f"{a / 10:g} {sign} {c}", f"{c}^{random.randint(2, 4)}",
    ))  # fmt: skip


_OTHER = re.compile(
    r"(can|are|did|do|does|where|what|what's|how|please|happy|see|don't|good|thanks|get|let|let's|call|come|turn|save|"
    r"send|meet|thank|nice|check|buy|bring|remember|say|tell|congratulations|sorry|have|no|clean|homework|fire|pizza|"
    r"time|talk|use|stretch|start|rent|plan|paint|learn|look|ask|try|ideas|parking|everyone|all)\b"
)
"""How questions, wishes and orders begin: `tell Anna that ...` needs a statement."""


@cache
def _sentences(statements: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences of the list, plain and patterns; only statements, or all."""
    found = [e for e in entries("sentence") if not (statements and _OTHER.match(e))]
    return tuple(e for e in found if "{" not in e), tuple(e for e in found if "{" in e)


def _sentence(random: Random, statements: bool) -> str:
    return fill(random, pick(random, pick(random, _sentences(statements))))


def _statement(random: Random) -> str:
    if random.random() < 0.6:
        return _sentence(random, True)
    time, item = _time(random), pick(random, words("food"))
    name, event = pick(random, words("first_name")), pick(random, words("event"))
    return pick(random, (
        f"I'll be there at {time}", f"the {event} is at {time}", f"{name} is coming over at {time}",
        f"we need {item}", f"I already bought {item}", f"{name} called about the {event}",
        f"I have to {pick(random, words('task'))} first", f"the {event} was great", f"{name} says hi",
        f"we are out of {item}", f"I can't come to the {event}",
    ))  # fmt: skip


def _message(random: Random) -> str:
    """Anything one would write to somebody; many are made of parts, so that there are thousands."""
    kind = random.random()
    if kind < 0.4:
        return _sentence(random, False)
    if kind < 0.7:
        return _statement(random)
    date, task = _date(random), pick(random, words("task"))
    day, event = _before_date(date) + date, pick(random, words("event"))
    return pick(random, (
        f"can we meet at {_time(random)}", f"remember to {task}", f"please {task}", f"can you {task}",
        f"don't forget the {event}", f"are you free {day}", f"did you {task}",
        f"say hi to {pick(random, words('first_name'))} for me", f"see you at {_time(random)} {day}",
    ))  # fmt: skip


@cache
def sections(name: str) -> dict[str, str]:
    """The `@` sections of a text file of this folder: heading -> lines below it. `#` lines are comments."""
    found: dict[str, list[str]] = {}
    heading = None
    for line in (files("needlex.data.embedded") / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            heading = line[2:].strip()
            found[heading] = []
        elif line.strip() and not line.startswith("#"):
            if heading is None:
                raise ValueError(f"{name}: line before the first '@' heading: {line!r}")
            found[heading].append(line)
    return {key: "\n".join(lines) for key, lines in found.items()}


@cache
def entries(pool: str) -> tuple[str, ...]:
    """All entries of one pool of `words.txt`, patterns among them."""
    for heading, text in sections("words.txt").items():
        if heading.split()[0] == pool:
            return tuple(e for e in (e.strip() for e in text.replace("\n", "|").split("|")) if e)
    raise KeyError(f"words.txt has no pool {pool!r}")


@cache
def words(pool: str) -> tuple[str, ...]:
    """The entries of one pool of `words.txt` that are plain words."""
    return tuple(e for e in entries(pool) if "{" not in e)


@cache
def _trained(pool: str) -> tuple[str, ...]:
    return tuple(w for w in words(pool) if not value_held_out(w))


def fill(random: Random, pattern: str) -> str:
    """The pattern with a word in place of each `{pool}`; no word that is held out."""

    def word(match: re.Match[str]) -> str:
        return str(random.randint(2, 999)) if match[1] == "number" else pick(random, _trained(match[1]))

    return an(re.sub(r"\{(\w+)\}", word, pattern))


def _listed(*names: str, loose: bool = False, but: re.Pattern[str] | None = None) -> Words:
    """A pool over the entries of some lists, without those whose beginning matches `but`."""
    found = [e for name in names for e in entries(name) if not (but and but.match(e))]
    plain = [e for e in found if "{" not in e]
    return Words(plain, loose, [e for e in found if "{" in e], fill)


@cache
def pools() -> dict[str, Pool]:
    """All pools by the name that templates use for them."""
    listed: dict[str, Pool] = {
        name: _listed(name, loose="loose" in marks)
        for name, *marks in (heading.split() for heading in sections("words.txt"))
    }
    person, item = Made(_person), _listed("food", "household")
    made: dict[str, Pool] = {
        "person": person, "people": Several(person, 3), "full_name": Made(_full_name),
        "item": item, "foods": Several(listed["food"], 4), "toppings": Several(listed["topping"], 3),
        "songs": Several(listed["song"], 3),
        "entry": _listed("task", "food", "household"),
        "message": Made(_message, loose=True), "statement": Made(_statement, loose=True),
        "fact": _listed("note", loose=True, but=_OTHER),
        "email": Made(_email), "website": Made(_website),
        "phone": Verbatim(_phone), "tracking": Verbatim(_code(2, 9)), "flight": Verbatim(_code(2, 3)),
        "order_number": Verbatim(_code(0, 6)), "expression": Verbatim(_expression),
        "time": Verbatim(_time), "at_time": Verbatim(_time, lambda value: "at "),
        "date": Verbatim(_date), "on_date": Verbatim(_date, _before_date),
        "length_pair": _pair("unit", _LENGTHS), "weight_pair": _pair("unit", _WEIGHTS),
        "volume_pair": _pair("unit", _VOLUMES), "degree_pair": _pair("unit", _DEGREES),
        "currency_pair": _pair("currency", _CURRENCIES),
    }  # fmt: skip
    return {**listed, **_closed(), **_numbers(), **made}
