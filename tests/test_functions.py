"""Python functions and classes as tools: what a signature says is what the grammar enforces and what a call gets."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    Union,
)

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.decode.grammar import compile_grammar
from needlex.functions import as_tools, invoke, tool_of
from needlex.hints.read import docstring
from needlex.hints.schemas import schema_of
from needlex.hints.values import value_of
from needlex.schema import Call, SchemaError, Tool
from tests.decode.answers import STYLES, check, tokenizer, write


def in_short(x: Any) -> str:
    """The start of what a parameter is: without its address, or the workers of a test run would disagree."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(x))[:40]


class Bound:
    """What the classes of annotated_types are to a reader: Ge(1) has `ge`, Interval(1, 2) has `ge` and `le`, ..."""

    def __init__(self, **bounds: Any):
        self.__dict__ |= bounds


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    OFF = 0
    ON = True
    AUTO = "auto"
    UNSET = None


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: to the right
    """

    x: float
    y: float = 0.0
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class Route:
    start: Point
    stops: list[Point] = dataclasses.field(default_factory=list)
    on: Optional[dt.date] = None  # noqa: UP045
    length: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Tree:
    children: list[Tree]


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self):
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


class Options(TypedDict, total=False):
    loud: bool
    size: Required[int]


class More(Options):
    name: str
    note: NotRequired[str | None]


class Address(pydantic.BaseModel):
    street: str = pydantic.Field(description="with the number", min_length=1)
    zip: int = pydantic.Field(ge=1, le=99999)


class Order(pydantic.BaseModel):
    """Order something.

    More about it.
    """

    item: Literal["tea", "coffee"]
    to: Address
    others: list[Address] = []
    tags: set[str] = set()
    when: dt.datetime | None = None


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    age: int


class Pets(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Folder(pydantic.BaseModel):
    inner: list[Folder] = []


UserId = NewType("UserId", int)
NOON = dt.datetime(2024, 2, 29, 12, 0, tzinfo=dt.timezone.utc)  # noqa: UP017
ID = "0123abcd-0123-0123-0123-0123456789ab"
STRING, INTEGER, NUMBER, NULL = ({"type": t} for t in ("string", "integer", "number", "null"))
POINT = {
    "type": "object",
    "description": "A place.",
    "properties": {
        "x": NUMBER | {"description": "to the right"},
        "y": NUMBER,
        "label": {"anyOf": [STRING, NULL]},
    },
    "required": ["x"],
}

HINTS: list[tuple[Any, dict[str, Any], list[tuple[Any, Any]], list[Any]]] = [
    # hint, schema, JSON values and what they mean, values that do not fit
    (str, STRING, [("a", "a")], [1, None, ["a"]]),
    (int, INTEGER, [(3, 3), (3.0, 3)], [True, "3", 2.5, None]),
    (float, NUMBER, [(2.5, 2.5), (2, 2.0)], ["2", False]),
    (bool, {"type": "boolean"}, [(True, True)], [1, "true"]),
    (None, NULL, [(None, None)], [0, ""]),
    (Any, {}, [([1, {"a": None}], [1, {"a": None}])], []),
    (UserId, INTEGER, [(7, 7)], ["7"]),
    (int | None, {"anyOf": [INTEGER, NULL]}, [(1, 1), (None, None)], ["1"]),
    (Optional[str], {"anyOf": [STRING, NULL]}, [("", "")], [1]),  # noqa: UP045
    (Union[float, int, str], {"anyOf": [NUMBER, INTEGER, STRING]}, [(3, 3), (3.5, 3.5), ("x", "x")], [None]),  # noqa: UP007
    (dt.date | str, {"anyOf": [{"type": "string", "format": "date"}, STRING]},
     [("2024-02-29", dt.date(2024, 2, 29)), ("soon", "soon")], [3]),
    (int | Any, {}, [("x", "x")], []),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, [("a", "a")], ["c", None]),
    (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}, [(1, 1), (True, True), (None, None)], [False, 2, "1"]),
    (Literal[Color.RED, "x"], {"type": "string", "enum": ["red", "x"]}, [("red", Color.RED)], ["blue"]),
    (Color, {"type": "string", "enum": ["red", "blue"]}, [("blue", Color.BLUE)], ["BLUE", 1]),
    (Level, {"type": "integer", "enum": [1, 2]}, [(2, Level.HIGH)], [3, True]),
    (Mixed, {"enum": [0, True, "auto", None]}, [(0, Mixed.OFF), (True, Mixed.ON), (None, Mixed.UNSET)], [False, 1, ""]),
    (list, {"type": "array"}, [([1, "a"], [1, "a"])], ["ab", {}]),
    (list[int], {"type": "array", "items": INTEGER}, [([1, 2], [1, 2])], [["1"], [None]]),
    (Sequence[Color], {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}, [(["red"], [Color.RED])], []),
    (set[int], {"type": "array", "items": INTEGER}, [([1, 2, 1], {1, 2})], [{"a": 1}]),
    (frozenset[str], {"type": "array", "items": STRING}, [(["a"], frozenset("a"))], []),
    (tuple[int, ...], {"type": "array", "items": INTEGER}, [([1, 2], (1, 2))], [["a"]]),
    (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
     [([1, "a"], (1, "a"))], [[1], [1, "a", 2], ["a", 1]]),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [([], ())], [[1]]),
    (dict, {"type": "object"}, [({"a": 1}, {"a": 1})], [[]]),
    (dict[str, list[float]], {"type": "object", "additionalProperties": {"type": "array", "items": NUMBER}},
     [({"a": [1]}, {"a": [1.0]})], [{"a": 1}]),
    (Mapping[str, Any], {"type": "object"}, [({"a": 1}, {"a": 1})], [1]),
    (dt.datetime, {"type": "string", "format": "date-time"}, [("2024-02-29T12:00:00Z", NOON)], ["noon", 5]),
    (dt.time, {"type": "string", "format": "time"}, [("12:00:00Z", NOON.timetz())], ["25:00:00Z"]),
    (dt.date, {"type": "string", "format": "date"}, [("2024-02-29", dt.date(2024, 2, 29))], ["2023-02-29"]),
    (uuid.UUID, {"type": "string", "format": "uuid"}, [(ID, uuid.UUID(ID))], ["0123"]),
    (Point, POINT, [({"x": 1}, Point(1.0)), ({"x": 1, "label": None, "y": 2.5}, Point(1.0, 2.5))],
     [{}, {"x": 1, "z": 2}, {"x": "1"}, [1]]),
    (Options, {"type": "object", "properties": {"loud": {"type": "boolean"}, "size": INTEGER}, "required": ["size"]},
     [({"size": 1}, {"size": 1})], [{"loud": True}, {"size": 1, "x": 2}]),
    (More, {
        "type": "object",
        "properties": {"loud": {"type": "boolean"}, "size": INTEGER, "name": STRING, "note": {"anyOf": [STRING, NULL]}},
        "required": ["size", "name"],
    }, [({"size": 1, "name": "n"}, {"size": 1, "name": "n"})], [{"size": 1}]),
    (Annotated[int, Bound(ge=1), Bound(lt=9), "how many"], INTEGER | {"minimum": 1, "exclusiveMaximum": 9, "description": "how many"},
     [(1, 1), (8, 8)], [0, 9]),
    (Annotated[int | None, pydantic.Field(ge=1, description="d")],
     {"anyOf": [INTEGER | {"minimum": 1}, NULL], "description": "d"}, [(None, None), (1, 1)], [0]),
    (Annotated[float, Bound(gt=0, le=1)], NUMBER | {"exclusiveMinimum": 0, "maximum": 1}, [(1, 1.0)], [0, 1.5]),
    (Annotated[str, pydantic.Field(pattern="^a+$", max_length=3)], STRING | {"pattern": "^a+$", "maxLength": 3},
     [("aa", "aa")], ["b", "aaaa"]),
    (Annotated[list[Annotated[int, Bound(multiple_of=5)]], Bound(min_length=1, max_length=2)],
     {"type": "array", "items": INTEGER | {"multipleOf": 5}, "minItems": 1, "maxItems": 2}, [([5], [5])], [[], [5, 5, 5], [3]]),
    (Address, {
        "type": "object",
        "properties": {
            "street": STRING | {"minLength": 1, "description": "with the number"},
            "zip": INTEGER | {"minimum": 1, "maximum": 99999},
        },
        "required": ["street", "zip"],
    }, [({"street": "a", "zip": 5}, Address(street="a", zip=5))], [{"street": "", "zip": 5}, {"zip": 1}, 3]),
    (Pets, {
        "type": "object",
        "properties": {"pet": {"oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "cat"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"type": "string", "const": "dog"}, "age": INTEGER},
             "required": ["kind", "age"]},
        ]}},
        "required": ["pet"],
    }, [({"pet": {"kind": "cat"}}, Pets(pet=Cat(kind="cat")))], [{"pet": {"kind": "dog"}}]),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "schema", "right", "wrong"), HINTS, ids=in_short)
def test_a_hint_is_a_schema_that_the_grammar_takes_and_a_way_back(hint, schema, right, wrong):
    assert schema_of(hint, "f") == schema
    made = Tool.from_json({"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}})
    grammar = compile_grammar((made,), tokenizer())
    for value, meant in right:
        found = value_of(hint, value, "f, argument x")
        assert found == meant and type(found) is type(meant)
        if not (isinstance(value, float) and value == int(value)):
            assert grammar.allows(
                json.dumps([Call("f", {"x": _sorted(value)}).to_json()], separators=(",", ":"))
            )
    for value in wrong:
        with pytest.raises(SchemaError, match=r"^f, argument x"):
            value_of(hint, value, "f, argument x")


def _sorted(value: Any) -> Any:
    return {k: _sorted(v) for k, v in sorted(value.items())} if isinstance(value, dict) else value


def test_whatever_the_grammar_lets_a_model_write_can_be_invoked():
    written = 0
    for i, (hint, *_) in enumerate(HINTS):
        source = dataclasses.make_dataclass("act", [("one", hint), ("many", list[hint])])
        tools = (tool_of(source),)
        grammar = compile_grammar(tools, tokenizer(), 1)
        for seed in range(2):
            text, _ = write(grammar, 70, STYLES[(i + seed) % len(STYLES)], seed)
            for call in check(text, tools):
                assert type(invoke(source, call["arguments"])) is source
                written += 1
    assert written > len(HINTS) / 2


def google(
    room: str, level: int = 50, *, color: Color | None = None, mode: Annotated[str, "from the hint"] = "a"
):
    """Set the light
    of a room.

    It takes a moment.

    Args:
        room: where it is,
            as people call it
        level (int, optional): percent: 0 is off
        mode: from the text

    Returns:
        Nothing.
    """
    return room, level, color, mode


def numpy_style(
    room: str, level: int = 50, *, color: Color | None = None, mode: Annotated[str, "from the hint"] = "a"
):
    """Set the light of a room.

    Parameters
    ----------
    room : str
        where it is,
        as people call it
    level : int, optional
        percent: 0 is off
    """


def sphinx(
    room: str, level: int = 50, *, color: Color | None = None, mode: Annotated[str, "from the hint"] = "a"
):
    """Set the light of a room.

    :param room: where it is,
        as people call it
    :param int level: percent: 0 is off
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy_style, sphinx], ids=lambda f: f.__name__)
def test_docstrings_of_three_styles_describe_the_same_tool(function):
    color = {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, NULL]}
    expected = {
        "name": function.__name__,
        "description": "Set the light of a room.",
        "parameters": {
            "type": "object",
            "properties": {
                "color": color,
                "level": INTEGER | {"description": "percent: 0 is off"},
                "mode": STRING | {"description": "from the hint"},
                "room": STRING | {"description": "where it is, as people call it"},
            },
            "required": ["room"],
        },
    }
    assert tool_of(function).to_json() == expected


@given(st.text(st.sampled_from("Args:\n  x-paramRtus\t`{}"), max_size=60) | st.text())
def test_no_docstring_stops_a_tool(text):
    description, about = docstring(text)
    assert "\n" not in description and all(isinstance(v, str) for v in about.values())


def required(
    a: int, b: int | None, c=1, d: str | None = None, e: Literal["x", None] = "x", f=None, g: Any = 0, h=""
):
    return a, b, c, d, e, f, g, h


def test_required_is_what_has_no_default_and_cannot_be_none():
    tool = tool_of(required)
    assert [p.name for p in tool.parameters if p.required] == ["a"]
    kinds = {p.name: p.schema.get("type") for p in tool.parameters}
    assert (kinds["c"], kinds["h"], kinds["f"], kinds["g"]) == ("integer", "string", None, None)
    # What may be None and is not given is None, also where Python would miss it; defaults stay Python's.
    assert invoke(required, {"a": 1}) == (1, None, 1, None, "x", None, 0, "")
    assert [p.name for p in tool_of(lambda_free(lambda x, y=2: 0)).parameters if p.required] == ["x"]


def lambda_free(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    wrapped.__name__ = "wrapped"
    return wrapped


class Home:
    """A house."""

    rooms: int = 3

    def __init__(self, owner: str = "me"):
        self.owner = owner

    def light(self, room: str, on: bool = True) -> Undefined:  # ty: what it gives is nobody's business
        """Switch a light."""
        return self.owner, room, on

    @classmethod
    def build(cls, rooms: int):
        """Build one."""
        return cls.__name__, rooms

    @staticmethod
    def count(of: list[Point]):
        return sum(p.x for p in of)

    def __call__(self, at: dt.time):
        """Wake up."""
        return at.hour


def placed(a: Color, b: int = 2, /, c: int = 3):
    return a, b, c


async def later(x: tuple[int, ...]) -> int:
    """Takes its time."""
    await asyncio.sleep(0)
    return sum(x)


@functools.lru_cache
def cached(x: int) -> int:
    return x + 1


CALLABLES: list[tuple[Any, str, str, tuple[str, ...], dict[str, Any], Any]] = [
    # source, name, description, parameters, arguments, result
    (Home().light, "light", "Switch a light.", ("on", "room"), {"room": "hall"}, ("me", "hall", True)),
    (Home.build, "build", "Build one.", ("rooms",), {"rooms": 2}, ("Home", 2)),
    (Home.count, "count", "", ("of",), {"of": [{"x": 1}, {"x": 2}]}, 3.0),
    (Home(), "Home", "Wake up.", ("at",), {"at": "07:30:00Z"}, 7),
    (functools.partial(google, "hall", level=9), "google", "Set the light of a room.", ("color", "mode"),
     {"color": "red"}, ("hall", 9, Color.RED, "a")),
    (functools.partial(Home().light, on=False), "light", "Switch a light.", ("room",), {"room": "x"}, ("me", "x", False)),
    (placed, "placed", "", ("a", "b", "c"), {"c": 5, "a": "blue"}, (Color.BLUE, 2, 5)),
    (later, "later", "Takes its time.", ("x",), {"x": [1, 2]}, 3),
    (cached, "cached", "", ("x",), {"x": 1}, 2),
    (Route, "Route", "", ("on", "start", "stops"), {"start": {"x": 1}, "on": "2024-02-29"},
     Route(Point(1.0), [], dt.date(2024, 2, 29))),
    (Order, "Order", "Order something.", ("item", "others", "tags", "to", "when"),
     {"item": "tea", "to": {"street": "s", "zip": 1}, "tags": ["a", "a"]},
     Order(item="tea", to=Address(street="s", zip=1), tags={"a"})),
    (Options, "Options", "", ("loud", "size"), {"size": 1}, {"size": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "name", "text", "parameters", "arguments", "result"), CALLABLES, ids=in_short
)
def test_everything_that_can_be_called_is_a_tool(source, name, text, parameters, arguments, result):
    tool = tool_of(source)
    assert (tool.name, tool.description, tool.parameter_names) == (name, text, parameters)
    assert invoke(source, arguments) == result
    compile_grammar((tool,), tokenizer())


def test_a_plain_class_is_called_like_a_function():
    assert tool_of(Home).to_json()["parameters"]["properties"] == {"owner": STRING}
    assert tool_of(Home).description == "A house."
    assert invoke(Home, {"owner": "you"}).owner == "you"


def fielded(
    a: int = pydantic.Field(ge=1, description="how many"), b: str = pydantic.Field("x", max_length=2)
):
    return a, b


@pydantic.dataclasses.dataclass
class Bounded:
    a: int = pydantic.Field(ge=1, description="how many")
    b: str = "x"


@pytest.mark.parametrize("source", [fielded, Bounded], ids=["function", "dataclass"])
def test_a_field_of_pydantic_as_default_gives_bounds_and_its_own_default(source):
    a, b = tool_of(source).parameters
    assert (a.required, a.schema) == (True, INTEGER | {"minimum": 1, "description": "how many"})
    assert not b.required and b.schema["type"] == "string"
    made = invoke(source, {"a": 2})
    assert made == ((2, "x") if source is fielded else Bounded(a=2, b="x"))
    with pytest.raises(SchemaError, match="argument a: 0 is against minimum 1"):
        invoke(source, {"a": 0})


class Pair(NamedTuple):
    left: int
    right: Color = Color.RED


class Bare:
    pass


def test_classes_without_an_init_of_their_own():
    assert tool_of(Pair).parameter_names == ("left", "right") and tool_of(Pair).description == ""
    assert invoke(Pair, {"left": 1, "right": "blue"}) == Pair(1, Color.BLUE)
    assert tool_of(Bare) == Tool("Bare") and type(invoke(Bare, {})) is Bare


def test_a_coroutine_is_left_to_a_loop_that_runs_already():
    async def outer():
        return await invoke(later, {"x": [2, 3]})

    assert asyncio.run(outer()) == 5


def nowhere(x: Missing):
    pass


def star(*args: int):
    pass


def stars(x: int, **kwargs: int):
    pass


def refuse(hint: Any) -> Any:
    def f(x):
        pass

    f.__annotations__ = {"x": hint}
    return f


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nowhere, r"function 'nowhere', parameter x: the hint 'Missing' cannot be read"),
        (star, r"function 'star', parameter \*args: .*: arguments must have names"),
        (stars, r"function 'stars', parameter \*\*kwargs: .*: arguments must have names"),
        (Home.light, r"function 'light', parameter self: the method has no object; give Home\(...\).light"),
        (lambda x: x, "a lambda has no name"),
        (min, "function 'min': its signature cannot be read"),
        (refuse(bytes), r"function 'f', parameter x: the hint bytes cannot be written .*: use str, int"),
        (refuse(list[complex]), r"function 'f', parameter x\[\]: the hint complex"),
        (refuse(tuple[int, bytes]), r"function 'f', parameter x\[1\]: the hint bytes"),
        (refuse(dict[int, str]), r"function 'f', parameter x: the hint dict\[int, str\] .*use dict\[str, ...\]"),
        (refuse(Tree), r"function 'f', parameter x\.children\[\]: the hint Tree .*contains itself"),
        (refuse(Folder), r"function 'f', parameter x: the hint Folder .*contains itself"),
        (refuse(Literal[b"x"]), r"function 'f', parameter x: .*b'x' is no JSON value"),
        (refuse(enum.Enum("Empty", [])), r"function 'f', parameter x: .*no members"),
        (refuse(Annotated[str, Bound(ge=3)]), r"function 'f', parameter x: minimum means nothing"),
        (refuse(Annotated[dt.date, Bound(ge=dt.date(2024, 1, 1))]), r"function 'f', parameter x: ge=.* has no form in JSON"),
        (Tree, r"class 'Tree', field children\[\]: the hint Tree .*contains itself"),
        (pydantic.RootModel[list[int]], "only a class with named fields can be a tool"),
        (Color, "class 'Color' is a kind of value"),
        (int, "function 'int'"),
        (3, "a tool must be an object, not int"),
        ("f", "a tool must be an object, not str"),
    ],
    ids=in_short,
)  # fmt: skip
def test_what_has_no_json_form_is_refused_by_name(source, message):
    with pytest.raises(SchemaError, match=message):
        tool_of(source)


def nested(
    points: list[Point],
    by: dict[str, Color] = {},  # noqa: B006
    even: Even | None = None,
    to: Address | None = None,
):
    return points


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1], r"function 'nested': needs an object"),
        ({}, r"function 'nested': \['points'\] missing"),
        ({"points": [], "x": 1}, r"function 'nested': unknown \['x'\]; known: \['points', 'by', 'even', 'to'\]"),
        ({"points": [{"x": 1}, {"x": "1"}]}, r"function 'nested', argument points\[1\]\.x: needs a value of type number, not '1'"),
        ({"points": [{"x": 10**400}]}, r"argument points\[0\]\.x: needs a value of type number"),
        ({"points": [{"y": 1}]}, r"argument points\[0\]: \['x'\] missing"),
        ({"points": [], "by": {"k": "green"}}, r"argument by\.k: 'green' is none of \['red', 'blue'\]"),
        ({"points": [], "even": {"n": 3}}, r"argument even: fits no member of the union: Even refuses it: 3 is odd"),
        ({"points": [], "to": {"street": "s", "zip": 0}}, r"argument to: fits no member of the union: .*zip.*greater than"),
    ],
    ids=str,
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_refused_with_its_path(arguments, message):
    with pytest.raises(SchemaError, match=message):
        invoke(nested, arguments)


def test_a_pydantic_error_has_the_path_of_the_field():
    arguments = {"item": "tea", "to": {"street": "s", "zip": 0}}
    with pytest.raises(SchemaError, match=r"class 'Order', argument to\.zip: Input should be greater"):
        invoke(Order, arguments)


def test_what_the_function_raises_is_its_own():
    def act(x: int):
        raise KeyError(x)

    with pytest.raises(KeyError):
        invoke(act, {"x": 1})
    with pytest.raises(SchemaError, match="Tool is no function"):
        invoke(tool_of(act), {"x": 1})


def test_tools_of_every_kind_go_together():
    raw = {"name": "g", "parameters": {"city": "string"}}
    tools = as_tools([google, Order, raw, Tool("h"), Home().light])
    assert [t.name for t in tools] == ["google", "Order", "g", "h", "light"]
    assert as_tools(json.dumps([raw])) == as_tools(raw) == as_tools((raw,)) == (Tool.from_json(raw),)
    assert as_tools(google) == (tool_of(google),) == as_tools([google, tool_of(google).to_json()])
    with pytest.raises(SchemaError, match=r"share the name \['google'\]"):
        as_tools([google, {"name": "google"}])
    for nothing in ([], None, "[]"):
        with pytest.raises(SchemaError, match="no tools"):
            as_tools(nothing)


def test_the_order_of_parameters_in_the_source_is_not_seen():
    def one(a: int, b: str = "", *, c: Point):
        pass

    def other(*, c: Point, b: str = "", a: int):
        pass

    other.__name__ = "one"
    assert tool_of(one) == tool_of(other)


def test_pydantic_is_not_imported():
    code = (
        "import sys, needlex.functions; assert not {'pydantic', 'jax', 'annotated_types'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
