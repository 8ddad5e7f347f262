"""Pools: what a slot of a template may say, and the value a caller would want for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Protocol

from needlex.data.embedded import words
from needlex.data.embedded.held_out import value_held_out


class Pool(Protocol):
    """A source of values. `draw` gives the text for the query and the JSON value for the answer."""

    open: bool
    """Whether any text may stand here, so that values can be held out (else: numbers, dates, closed lists)."""
    loose: bool
    """Whether a listener can only guess where the value ends."""

    def draw(self, random: Random, held_out: bool) -> tuple[str, Any]: ...


class Words:
    """An open slot over a list; the value is the text itself."""

    open = True

    def __init__(self, entries: Sequence[str], loose: bool = False):
        self.entries = tuple(dict.fromkeys(entries))
        self.loose = loose
        self.trained = tuple(e for e in self.entries if not value_held_out(e))
        self.unseen = tuple(e for e in self.entries if value_held_out(e))
        if not self.trained or not self.unseen:
            raise ValueError(
                f"pool {self.entries[:3]}... is too small to hold a fifth of it out; add entries"
            )

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        entries = self.unseen if held_out else self.trained
        value = entries[int(random.random() * len(entries))]
        return value, value


class Made:
    """An open slot whose texts are made by a function; held out by the finished text."""

    open = True

    def __init__(self, make: Callable[[Random], str], loose: bool = False):
        self.make, self.loose = make, loose

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        while True:
            value = self.make(random)
            if value_held_out(value) == held_out:
                return value, value


class Several:
    """A list of two to four values of another pool, as `a, b and c`."""

    open = True
    loose = False

    def __init__(self, pool: Pool, most: int = 4):
        self.pool, self.most = pool, most

    def draw(self, random: Random, held_out: bool) -> tuple[str, list[str]]:
        values: list[str] = []
        for _ in range(random.randint(2, self.most)):
            value = self.pool.draw(random, held_out)[1]
            if value not in values:
                values.append(value)
        text = ", ".join(values[:-1])
        return (f"{text} and {values[-1]}" if text else values[0]), values


class Number:
    """A whole number `low..high` in steps; `spelled` is the share written out in words."""

    open = False
    loose = False

    def __init__(
        self, low: int, high: int, step: int = 1, spelled: float = 0.0, favourites: Sequence[int] = ()
    ):
        self.range, self.spelled, self.favourites = range(low, high + 1, step), spelled, favourites

    def draw(self, random: Random, held_out: bool) -> tuple[str, int]:
        if self.favourites and random.random() < 0.5:
            value = self.favourites[int(random.random() * len(self.favourites))]
        else:
            value = self.range[int(random.random() * len(self.range))]
        return (spell(value) if random.random() < self.spelled else str(value)), value


class Decimal:
    """A number that is sometimes whole (an integer in JSON) and sometimes has decimals."""

    open = False
    loose = False

    def __init__(self, low: int, high: int, digits: int, whole: float = 0.6):
        self.low, self.high, self.digits, self.whole = low, high, digits, whole

    def draw(self, random: Random, held_out: bool) -> tuple[str, float | int]:
        if random.random() < self.whole:
            value = random.randint(self.low, self.high)
            return str(value), value
        scale = 10**self.digits
        value = random.randint(self.low * scale, self.high * scale) / scale
        if value == int(value):
            return str(int(value)), int(value)
        return repr(value), value


class Closed:
    """A closed list: texts and the canonical value of each."""

    open = False
    loose = False

    def __init__(self, values: Mapping[str, Any]):
        self.items = tuple(values.items())

    def draw(self, random: Random, held_out: bool) -> tuple[str, Any]:
        return self.items[int(random.random() * len(self.items))]


class Verbatim:
    """Times and dates: the value is (a part of) the text, and nothing is held out."""

    open = False
    loose = False

    def __init__(self, make: Callable[[Random], str], before: Callable[[str], str] = lambda value: ""):
        self.make, self.before = make, before

    def draw(self, random: Random, held_out: bool) -> tuple[str, str]:
        value = self.make(random)
        return self.before(value) + value, value


_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def spell(number: int) -> str:
    """An integer 0..99 in words; anything else in digits."""
    if not 0 <= number < 100:
        return str(number)
    if number < 20:
        return _UNITS[number]
    return _TENS[number // 10] + (f" {_UNITS[number % 10]}" if number % 10 else "")


def _pick(random: Random, entries: Sequence[Any]) -> Any:
    return entries[int(random.random() * len(entries))]


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip


def _time(random: Random) -> str:
    kind, hour = random.random(), random.randint(1, 12)
    half = "am" if random.random() < 0.45 else "pm"
    if kind < 0.4:
        return f"{hour} {half}" if random.random() < 0.6 else f"{hour}{half}"
    if kind < 0.7:
        return f"{hour}:{_pick(random, (5, 10, 15, 20, 30, 45, 50)):02d} {half}"
    if kind < 0.85:
        return f"{random.randint(0, 23)}:{random.randint(0, 11) * 5:02d}"
    if kind < 0.95:
        return _pick(random, ("half past ", "quarter past ", "quarter to ")) + spell(hour)
    return _pick(random, ("noon", "midnight"))


def _ordinal(day: int) -> str:
    return f"{day}" + ("th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th"))


def _date(random: Random) -> str:
    kind = random.random()
    if kind < 0.3:
        return _pick(random, ("today", "tomorrow", "tomorrow", "the day after tomorrow"))
    if kind < 0.65:
        return _pick(random, WEEKDAYS)
    if kind < 0.75:
        return "next " + _pick(random, WEEKDAYS)
    day, month = random.randint(1, 28), _pick(random, MONTHS)
    return _pick(random, (f"{month} {day}", f"{month} {_ordinal(day)}", f"the {_ordinal(day)} of {month}"))


def _before_date(value: str) -> str:
    return "" if value.startswith(("today", "tomorrow", "the day after", "next ")) else "on "


def _person(random: Random) -> str:
    kind = random.random()
    if kind < 0.6:
        return _pick(random, _names())
    if kind < 0.8:
        return f"{_pick(random, _names())} {_pick(random, entries(words.LAST_NAMES))}"
    return _pick(random, entries(words.RELATIONS))


def _email(random: Random) -> str:
    name = _pick(random, _names()).lower()
    host = _pick(random, ("example.com", "mail.net", "post.org", "inbox.io", "company.com", "school.edu"))
    tail = _pick(
        random, ("", "", f".{_pick(random, entries(words.LAST_NAMES)).lower()}", str(random.randint(1, 99)))
    )
    return f"{name}{tail}@{host}"


def _website(random: Random) -> str:
    first = _pick(
        random, ("daily", "green", "happy", "my", "open", "fast", "blue", "city", "home", "north", "little")
    )
    second = _pick(
        random, ("news", "recipes", "garden", "bikes", "books", "weather", "maps", "music", "travel", "art")
    )
    return f"{first}{second}.{_pick(random, ('com', 'org', 'net', 'io', 'co.uk'))}"


def _phone(random: Random) -> str:
    return _pick(random, (
        f"555-{random.randint(0, 9999):04d}",
        f"{random.randint(200, 989)}-555-{random.randint(0, 9999):04d}",
        f"0{random.randint(20, 99)} {random.randint(1000000, 9999999)}",
    ))  # fmt: skip


def _code(letters: int, digits: int) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        head = "".join(_pick(random, "ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(letters))
        return head + "".join(_pick(random, "0123456789") for _ in range(digits))

    return make


def _expression(random: Random) -> str:
    a, b, c = random.randint(2, 999), random.randint(2, 99), random.randint(2, 20)
    sign, other = _pick(random, "+-*/"), _pick(random, "+-*")
    return _pick(random, (
        f"{a} {sign} {b}", f"{b} {sign} {c}", f"{a}{sign}{c}", f"{a} {sign} {b} {other} {c}",
        f"({a} {other} {b}) {sign} {c}", f"{a / 10:g} {sign} {c}", f"{c}^{random.randint(2, 4)}",
    ))  # fmt: skip


def _message(random: Random) -> str:
    """Half of the messages are made of parts, so that there are thousands."""
    kind = random.random()
    if kind < 0.5:
        return _pick(random, entries(words.MESSAGES))
    time, date = _time(random), _date(random)
    task, event = _pick(random, entries(words.TASKS)), _pick(random, entries(words.EVENTS))
    name, item = _pick(random, _names()), _pick(random, entries(words.GROCERIES))
    return _pick(random, (
        f"I'll be there at {time}", f"can we meet at {time}", f"the {event} is at {time}", f"remember to {task}",
        f"please {task}", f"{name} is coming over at {time}", f"can you {task}", f"we need {item}",
        f"I already bought {item}", f"don't forget the {event}", f"are you free {_before_date(date)}{date}",
        f"say hi to {name} for me", f"{name} called about the {event}", f"I have to {task} first",
        f"see you at {time} {_before_date(date)}{date}", f"did you {task}",
    ))  # fmt: skip


@cache
def entries(text: str) -> tuple[str, ...]:
    """The entries of a list in `words`."""
    return tuple(e.strip() for e in text.replace("\n", "|").split("|") if e.strip())


@cache
def _names() -> tuple[str, ...]:
    return entries(words.FIRST_NAMES)


def _list_of(name: str, loose: bool = False) -> Words:
    return Words(entries(getattr(words, name)), loose)


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
_DEGREES = {"celsius": "celsius", "degrees celsius": "celsius", "fahrenheit": "fahrenheit",
            "degrees fahrenheit": "fahrenheit", "kelvin": "kelvin"}  # fmt: skip
UNITS = tuple(sorted({*_LENGTHS.values(), *_WEIGHTS.values(), *_VOLUMES.values(), *_DEGREES.values()}))
CURRENCIES = {
    "dollars": "USD", "US dollars": "USD", "euros": "EUR", "pounds sterling": "GBP", "British pounds": "GBP",
    "yen": "JPY", "Japanese yen": "JPY", "Swiss francs": "CHF", "Canadian dollars": "CAD", "rupees": "INR",
    "Australian dollars": "AUD", "yuan": "CNY", "Mexican pesos": "MXN",
}  # fmt: skip


def _pair(kind: str, values: Mapping[str, str]) -> Closed:
    """`feet to meters`: one text that gives two arguments (`templates` spreads a mapping)."""
    return Closed({
        f"{a}{joint}{b}": {f"from_{kind}": values[a], f"to_{kind}": values[b]}
        for a in values for b in values for joint in (" to ", " into ") if values[a] != values[b]
    })  # fmt: skip


@cache
def pools() -> dict[str, Pool]:
    """All pools by the name that templates use for them."""
    person = Made(_person)
    minutes = Number(1, 100, spelled=0.15, favourites=(5, 10, 15, 20, 25, 30, 45))
    grocery, topping = _list_of("GROCERIES"), _list_of("TOPPINGS")
    percent = Number(0, 100, favourites=(10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90))
    return {
        "area": _list_of("AREAS"), "floor": _list_of("FLOORS"), "device": _list_of("DEVICES"),
        "lamp": _list_of("LAMPS"), "fan": _list_of("FANS"), "player": _list_of("PLAYERS"),
        "climate": _list_of("CLIMATES"), "cover": _list_of("COVERS"), "valve": _list_of("VALVES"),
        "lock": _list_of("LOCKS"), "vacuum": _list_of("VACUUMS"), "mower": _list_of("MOWERS"),
        "scene": _list_of("SCENES"), "script": _list_of("SCRIPTS"), "button": _list_of("BUTTONS"),
        "sensor": _list_of("SENSORS"), "zone": _list_of("ZONES"), "person": person, "people": Several(person, 3),
        "item": grocery, "items": Several(grocery), "task": _list_of("TASKS", loose=True),
        "entry": Words(entries(words.TASKS) + entries(words.GROCERIES)),
        "list": _list_of("LISTS"), "message": Made(_message, loose=True), "song": _list_of("SONGS", loose=True),
        "artist": _list_of("ARTISTS", loose=True), "album": _list_of("ALBUMS", loose=True),
        "playlist": _list_of("PLAYLISTS"), "podcast": _list_of("PODCASTS", loose=True),
        "movie": _list_of("MOVIES", loose=True), "show": _list_of("SHOWS", loose=True),
        "timer_name": _list_of("TIMER_NAMES"), "city": _list_of("CITIES"), "place": _list_of("PLACES"),
        "place_type": _list_of("PLACE_TYPES"), "event": _list_of("EVENTS"), "subject": _list_of("SUBJECTS"),
        "note": _list_of("NOTES", loose=True), "title": _list_of("NOTE_TITLES"),
        "topic": _list_of("TOPICS", loose=True), "word": _list_of("WORDS"), "language": _list_of("LANGUAGES"),
        "phrase": _list_of("PHRASES", loose=True), "dish": _list_of("DISHES"),
        "restaurant": _list_of("RESTAURANTS"), "topping": topping, "toppings": Several(topping, 3),
        "company": _list_of("COMPANIES"), "app": _list_of("APPS"), "activity": _list_of("ACTIVITIES"),
        "command": _list_of("COMMANDS"), "joke_topic": _list_of("JOKE_TOPICS"),
        "belonging": _list_of("BELONGINGS"), "songs": Several(_list_of("SONGS"), 3),
        "full_name": Made(lambda random: f"{_pick(random, _names())} {_pick(random, entries(words.LAST_NAMES))}"),
        "sides": Closed({str(n): n for n in (4, 6, 8, 10, 12, 20)}),
        "genre": Closed({"jazz": "jazz", "rock": "rock", "pop": "pop", "classical": "classical", "news": "news",
                         "hip hop": "hip_hop", "country": "country"}),
        "email": Made(_email), "website": Made(_website), "phone": Verbatim(_phone),
        "tracking": Verbatim(_code(2, 9)), "flight": Verbatim(_code(2, 3)), "order_number": Verbatim(_code(0, 6)),
        "expression": Verbatim(_expression), "time": Verbatim(_time), "date": Verbatim(_date),
        "at_time": Verbatim(_time, lambda value: "at "), "on_date": Verbatim(_date, _before_date),
        "hours": Number(1, 24, spelled=0.15, favourites=(1, 2, 3, 4)), "minutes": minutes,
        "seconds": Number(1, 100, spelled=0.1, favourites=(10, 15, 20, 30, 45, 90)),
        "percent": percent, "temperature": Decimal(5, 32, 1, whole=0.85), "kelvin": Number(2000, 6500, 100),
        "few": Number(2, 9, spelled=0.4), "days": Number(2, 14, spelled=0.3), "count": Number(2, 12, spelled=0.4),
        "quantity": Number(2, 6, spelled=0.5), "people_count": Number(2, 12, spelled=0.5),
        "amount": Decimal(2, 900, 2, whole=0.7), "tip_percent": Number(5, 25),
        "measure": Decimal(1, 500, 1, whole=0.7), "distance": Decimal(1, 30, 1, whole=0.5),
        "weight": Decimal(45, 120, 1, whole=0.4), "milliliters": Number(100, 900, 50),
        "duration": Number(10, 120, 5, favourites=(15, 30, 45, 60, 90)), "low": Number(0, 10),
        "high": Number(11, 1000, favourites=(20, 50, 100, 1000)), "radius": Decimal(1, 20, 1, whole=0.7),
        "length_pair": _pair("unit", _LENGTHS), "weight_pair": _pair("unit", _WEIGHTS),
        "volume_pair": _pair("unit", _VOLUMES), "degree_pair": _pair("unit", _DEGREES),
        "currency_pair": _pair("currency", CURRENCIES),
    }  # fmt: skip
