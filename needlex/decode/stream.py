"""From token ids, as they are decoded, to text and to events of calls.

`TextPieces` turns ids into text that is never taken back, `AnswerReader` turns text into events, `answer_events` does
both. Nothing is read twice: the work is linear in the length of the answer, however small its pieces are.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from needlex.data.tokenizer import Tokenizer
from needlex.schema import Call, SchemaError, load_json


@dataclass(frozen=True)
class ToolsChosen:
    """Not all tools were offered to the model (comes first, if at all)."""

    names: tuple[str, ...]
    """Those that were."""
    reason: str


@dataclass(frozen=True)
class Text:
    """A piece of the answer as the model wrote it; all pieces joined are the answer."""

    text: str


@dataclass(frozen=True)
class CallOpened:
    """The name of call `index` (from 0) is complete."""

    index: int
    name: str


@dataclass(frozen=True)
class ArgumentFinished:
    """Argument `name` of call `index` has the JSON value `value`."""

    index: int
    name: str
    value: Any


@dataclass(frozen=True)
class CallFinished:
    """Call `index` is complete, and `call` is what counts if a key was written twice."""

    index: int
    call: Call


@dataclass(frozen=True)
class Finished:
    """The answer is complete: all its calls, in order."""

    calls: tuple[Call, ...]


Event: TypeAlias = ToolsChosen | Text | CallOpened | ArgumentFinished | CallFinished | Finished


class TextPieces:
    """Text of ids that come bit by bit: the pieces and `flush()` joined are `tokenizer.decode` of all ids."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = True

    def push(self, ids: Sequence[int]) -> str:
        """The text that `ids` complete, "" if none; a character whose bytes are not all there is held back."""
        return self._new(self._decoder.decode(b"".join([self._tokenizer.pieces[int(i)] for i in ids])))

    def flush(self) -> str:
        """The end of the text: U+FFFD if a character was left incomplete. The next `push` begins a new text."""
        text = self._new(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._at_start = True
        return text

    def _new(self, text: str) -> str:
        if not text or not self._at_start:
            return text
        self._at_start = False
        return text.removeprefix(" ") if self._tokenizer.dummy_prefix else text


_Reading: TypeAlias = Generator[None, None, Any]
"""A part of the reader: yields when it needs more text, returns what it read."""

_SPACE = re.compile(r"[ \t\n\r]*")
_IN_SCALAR = re.compile(r"[^,\]} \t\n\r]*")
_IN_STRING = re.compile(r'[^"\\]*')
_BETWEEN_BRACKETS = re.compile(r'[^][{}"]*')


class AnswerReader:
    """Reads `[{"name":...,"arguments":{...}},...]` as it is written, and tells each part at its last character.

    A number ends with the character after it. Keys may come in any order: what precedes the name of its call is told
    with the name. A key written twice is told twice, and the last one counts, as everywhere in JSON. The other forms
    that `Call.from_json` admits (`function`, `parameters`, arguments as a string) are told at the end of the call.

    From the first character on that no list of calls can hold there is only `Text`; `finish` says what was wrong.
    """

    def __init__(self):
        self.calls: list[Call] = []
        """The complete calls so far."""
        self._texts: list[str] = []
        self._chunk, self._at, self._offset = "", 0, 0  # the latest text, the place in it, and its own place
        self._events: list[Event] = []
        self._raw: dict[str, Any] = {}  # the call that is being read
        self._start = 0  # its first character
        self._opened = False
        self._held: list[Event] = []  # arguments before the name
        self._reading: _Reading | None = self._elements("[", "]", self._call)
        next(self._reading)

    def push(self, text: str) -> list[Event]:
        """What `text` tells: itself (unless empty), then the parts of calls that it completes. Never raises."""
        if not text:
            return []
        self._texts.append(text)
        self._offset += len(self._chunk)
        self._chunk, self._at = text, 0
        self._events = [Text(text)]
        if self._reading is not None:
            try:
                next(self._reading)
            except (StopIteration, SchemaError):
                self._reading = None
        return self._events

    def finish(self) -> list[Call]:
        """All calls of the text, which ends here.

        **Raises:** `SchemaError` with place and reason when it is no complete list of calls, and how many
        complete calls precede (they are in `calls`).
        """
        read = f"; complete calls before that: {len(self.calls)}"
        try:
            answer = load_json("".join(self._texts), "the answer")
        except SchemaError as e:
            raise SchemaError(f"{e}{read}") from None
        if not isinstance(answer, list):
            raise SchemaError(f"the answer must be a list of calls, not {type(answer).__name__}{read}")
        calls = []
        for i, raw in enumerate(answer):
            try:
                calls.append(Call.from_json(raw))
            except SchemaError as e:
                raise SchemaError(f"call {i} of the answer, at character {self._start}: {e}{read}") from None
        return calls

    def _call(self) -> _Reading:
        yield from self._peek()
        self._start = self._offset + self._at
        self._raw, self._opened, self._held = {}, False, []
        yield from self._elements("{", "}", self._member)
        raw, index = self._raw, len(self.calls)
        call = Call.from_json(raw)
        if isinstance(raw.get("function"), dict) or not isinstance(raw.get("arguments"), dict):
            # Not told as it came: only now it is known where name and arguments stand.
            if not self._opened or raw.get("name") != call.name:
                self._events.append(CallOpened(index, call.name))
            self._events += [ArgumentFinished(index, k, v) for k, v in call.arguments.items()]
        self._events.append(CallFinished(index, call))
        self.calls.append(call)

    def _member(self) -> _Reading:
        key = yield from self._key()
        if key == "arguments" and (yield from self._peek()) == "{":
            self._raw[key] = {}
            self._held = []
            yield from self._elements("{", "}", self._argument)
            return
        self._raw[key] = value = yield from self._value()
        if key == "name" and isinstance(value, str) and value:
            self._events += [CallOpened(len(self.calls), value), *self._held]
            self._opened, self._held = True, []

    def _argument(self) -> _Reading:
        key = yield from self._key()
        self._raw["arguments"][key] = value = yield from self._value()
        told = self._events if self._opened else self._held
        told.append(ArgumentFinished(len(self.calls), key, value))

    def _elements(self, opening: str, closing: str, read: Callable[[], _Reading]) -> _Reading:
        yield from self._take(opening)
        if (yield from self._peek()) == closing:
            yield from self._take(closing)
            return
        while True:
            yield from read()
            if (yield from self._take("," + closing)) == closing:
                return

    def _key(self) -> Generator[None, None, str]:
        if (yield from self._peek()) != '"':
            raise SchemaError("no key")
        key = yield from self._value()
        yield from self._take(":")
        return key

    def _value(self) -> _Reading:
        """Any JSON value; only its end is sought here, the rest is checked when it is parsed."""
        first, parts = (yield from self._peek()), []
        if first == '"':
            yield from self._string(parts)
        elif first in "[{":
            depth = 0
            while True:
                stop = yield from self._run(_BETWEEN_BRACKETS, parts)
                if stop == '"':
                    yield from self._string(parts)
                    continue
                self._keep(parts)
                depth += 1 if stop in "[{" else -1
                if not depth:
                    break
        else:
            yield from self._run(_IN_SCALAR, parts)
        return load_json("".join(parts), "a value")

    def _string(self, parts: list[str]) -> _Reading:
        self._keep(parts)
        while (yield from self._run(_IN_STRING, parts)) == "\\":
            self._keep(parts)
            yield from self._more()
            self._keep(parts)
        self._keep(parts)

    def _run(self, pattern: re.Pattern[str], parts: list[str]) -> Generator[None, None, str]:
        """Move what `pattern` matches into `parts`, over as many texts as it takes; the character that ends it."""
        while True:
            found = pattern.match(self._chunk, self._at)
            if found:  # always: the patterns match nothing too
                parts.append(found[0])
                self._at = found.end()
            if self._at < len(self._chunk):
                return self._chunk[self._at]
            yield

    def _keep(self, parts: list[str]) -> None:
        parts.append(self._chunk[self._at])
        self._at += 1

    def _more(self) -> _Reading:
        while self._at == len(self._chunk):
            yield

    def _peek(self) -> Generator[None, None, str]:
        """The next character that is no white space."""
        return (yield from self._run(_SPACE, []))

    def _take(self, allowed: str) -> Generator[None, None, str]:
        found = yield from self._peek()
        if found not in allowed:
            raise SchemaError(f"{found!r} where one of {allowed!r} must stand")
        self._at += 1
        return found


def answer_events(tokenizer: Tokenizer, steps: Iterable[Sequence[int]]) -> Iterator[Event]:
    """Events of an answer whose ids come in `steps` of any size, the last one `Finished`.

    **Raises:** `SchemaError`, after all other events, when the answer is no list of calls (`AnswerReader.finish`).
    """
    pieces, reader = TextPieces(tokenizer), AnswerReader()
    for ids in steps:
        yield from reader.push(pieces.push(ids))
    yield from reader.push(pieces.flush())
    yield Finished(tuple(reader.finish()))
