"""Text as Needle v1 had it: for checkpoints of the original model and comparison with it.

v1 writes JSON with `\\uXXXX` escapes and keeps the order of keys; its tokenizer squeezes spaces. Classes of
answer tokens are exact here, where the original searched the text and missed repeated and escaped values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from needlex.data.encode import Encoded, TooLong, answer_classes
from needlex.data.render import BASE, NAME, AnswerWriter, Span
from needlex.data.tokenizer import EOS, TOOL_CALL, TOOLS, Tokenizer


def to_snake_case(name: str) -> str:
    """A name as v1 showed it to the model: ASCII letters and digits in lower case, words joined by `_`.

    Whatever else a name holds is lost (a Chinese name becomes the empty text), and two names may become one.
    """
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()


def encode_query_v1(query: str, tools_text: str, tokenizer: Tokenizer, max_enc: int) -> list[int]:
    """What the encoder of v1 reads: the query cut to `max_enc - 2` ids, the tools cut to what is left."""
    ids = [*tokenizer.encode(query)[: max_enc - 2], TOOLS]
    return ids + tokenizer.encode(tools_text)[: max_enc - len(ids)]


def encode_v1(
    query: str, tools_text: str, answers_text: str, tokenizer: Tokenizer, max_enc: int, max_dec: int
) -> Encoded:
    """A row of v1 as ids, its query and tools cut as in `encode_query_v1`.

    `tools_text` and `answers_text` hold JSON, written anew without spaces; other text stays as it is.

    **Raises:** `TooLong` when the answer does not fit.
    """
    encoder = encode_query_v1(query, _compact(tools_text), tokenizer, max_enc)
    text, spans = _render_answers(answers_text)
    if tokenizer.dummy_prefix:
        text, spans = _squeeze(text, spans)
    ids = tokenizer.encode(text)
    if len(ids) + 2 > max_dec:
        raise TooLong("decoder", len(ids) + 2, max_dec, "v1 left such rows out")
    classes = np.full(len(ids) + 2, BASE, np.int32)
    classes[1:-1] = answer_classes(text, spans, ids, tokenizer)
    return Encoded(
        encoder=np.array(encoder, np.int32),
        decoder=np.array([EOS, TOOL_CALL, *ids], np.int32),
        targets=np.array([TOOL_CALL, *ids, EOS], np.int32),
        classes=classes,
    )


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except json.JSONDecodeError:
        return text


def _render_answers(text: str) -> tuple[str, list[Span]]:
    """The answers as v1 wrote them, and the spans of names, keys and values in them."""
    try:
        answers = json.loads(text)
    except json.JSONDecodeError:
        return text, []
    writer = AnswerWriter(sort=False, ascii_only=True)
    if isinstance(answers, list):
        _sequence(writer, "[]", answers, _call)
    else:
        _call(writer, answers)
    return writer.text, writer.spans


def _call(writer: AnswerWriter, call: Any) -> None:
    if not isinstance(call, Mapping):
        writer.put(json.dumps(call, separators=(",", ":")))
        return

    def item(writer: AnswerWriter, pair: tuple[str, Any]) -> None:
        key, value = pair
        writer.put(json.dumps(key) + ":")
        if key == "name" and isinstance(value, str):
            writer.string(value, NAME)
        elif key == "arguments" and isinstance(value, Mapping):
            writer.value(value)
        else:
            writer.put(json.dumps(value, separators=(",", ":")))

    _sequence(writer, "{}", list(call.items()), item)


def _sequence(writer: AnswerWriter, brackets: str, items: Sequence[Any], put: Any) -> None:
    writer.put(brackets[0])
    for i, item in enumerate(items):
        if i:
            writer.put(",")
        put(writer, item)
    writer.put(brackets[1])


def _squeeze(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Text and spans as the tokenizer of v1 sees them: single spaces, none at the ends."""
    kept, position = [], [0]
    for i, c in enumerate(text):
        if c != " " or (kept and text[i - 1] != " " and text[i:].strip(" ")):
            kept.append(c)
        position.append(len(kept))
    moved = (Span(position[s.start], position[s.end], s.token_class) for s in spans)
    return "".join(kept), [s for s in moved if s.start < s.end]
