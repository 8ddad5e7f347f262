"""Examples as token ids: what the encoder reads, what the decoder writes, which class each target has.

Encoder: `query <tools> tools`. Decoder input: `</s> <tool_call> answer`, targets one to the left of it:
`<tool_call> answer </s>`. Inference builds the encoder side with the same `encode_query`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from needlex.data.render import BASE, RenderConfig, Span, render_answer, render_tool, render_tools
from needlex.data.tokenizer import EOS, TOOL_CALL, TOOLS, Tokenizer
from needlex.schema import Example, Tool


@dataclass(frozen=True)
class Encoded:
    """One example as ids; all arrays are int32."""

    encoder: np.ndarray
    """Query ids, `<tools>`, ids of the rendered tools: shape [enc]."""
    decoder: np.ndarray
    """`</s>`, `<tool_call>`, answer ids: shape [dec]."""
    targets: np.ndarray
    """`<tool_call>`, answer ids, `</s>`: shape [dec]."""
    classes: np.ndarray
    """Class of each target, 0 base, 1 name, 2 value, 3 key; the special ids are base: shape [dec]."""


class TooLong(ValueError):
    """An example that does not fit. `reason` is `encoder` or `decoder`: the side to count it under."""

    def __init__(self, reason: str, tokens: int, limit: int, fix: str):
        super().__init__(f"the {reason} side takes {tokens} tokens, the limit is {limit}: {fix}")
        self.reason, self.tokens, self.limit = reason, tokens, limit

    def __reduce__(self):  # the loader may raise it in another process
        return _rebuild_too_long, (self.reason, self.tokens, self.limit, str(self).split(": ", 1)[1])


def _rebuild_too_long(reason: str, tokens: int, limit: int, fix: str) -> TooLong:
    return TooLong(reason, tokens, limit, fix)


def encode_query(
    query: str, tools: Sequence[Tool], tokenizer: Tokenizer, render: RenderConfig, max_encoder: int
) -> np.ndarray:
    """What the encoder reads, for training and inference alike: int32, shape [enc].

    Tools in signature style are encoded line by line (and remembered), so the ids of a tool do not depend
    on its neighbours.

    **Raises:** `TooLong` when it takes more than `max_encoder` ids; nothing is ever cut.
    """
    parts = [tokenizer.encode_array(query), _TOOLS]
    if render.style == "signature":
        last = len(tools) - 1
        for i, tool in enumerate(tools):
            line = render_tool(tool, render)
            parts.append(tokenizer.encode_array(line if i == last else line + "\n"))
    else:
        parts.append(tokenizer.encode_array(render_tools(tools, render)))
    ids = np.concatenate(parts)
    if len(ids) > max_encoder:
        raise TooLong(
            "encoder", len(ids), max_encoder, "offer fewer tools, shorten the query or raise max_encoder"
        )
    return ids


def encode_example(
    example: Example, tokenizer: Tokenizer, render: RenderConfig, max_encoder: int, max_decoder: int
) -> Encoded:
    """The example as ids.

    **Raises:** `TooLong` when one side does not fit; the caller counts it by `reason`.
    """
    encoder = encode_query(example.query, example.tools, tokenizer, render, max_encoder)
    text, spans = render_answer(example.calls)
    answer = tokenizer.encode_array(text)
    n = len(answer) + 2
    if n > max_decoder:
        raise TooLong("decoder", n, max_decoder, "shorten the answer or raise max_decoder")
    decoder, targets = np.empty(n, np.int32), np.empty(n, np.int32)
    classes = np.full(n, BASE, np.int32)
    decoder[0], decoder[1], decoder[2:] = EOS, TOOL_CALL, answer
    targets[0], targets[1:-1], targets[-1] = TOOL_CALL, answer, EOS
    classes[1:-1] = answer_classes(text, spans, answer, tokenizer)
    return Encoded(encoder, decoder, targets, classes)


def answer_classes(
    text: str, spans: Sequence[Span], ids: Sequence[int] | np.ndarray, tokenizer: Tokenizer
) -> np.ndarray:
    """Class of each piece of an encoded text: int32, shape [len(ids)].

    A piece takes the class of the first span that it touches, so a piece that holds a quote and the
    start of a value counts as value: choosing it decides the value. `spans` are in characters, sorted and
    disjoint, as `render_answer` gives them. The space a tokenizer may put before the text belongs to no span.

    **Raises:** `ValueError` when the pieces do not spell `text` (a lossy tokenizer).
    """
    lengths = tokenizer.byte_lengths(ids)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    starts = ends - lengths
    if text.isascii():
        offsets, size = None, len(text)
    else:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        widths = 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)
        offsets = np.concatenate([[0], np.cumsum(widths)])
        size = int(offsets[-1])
    lead = total - size
    if lead not in (0, 1) or (lead == 1 and not tokenizer.dummy_prefix):
        raise ValueError(f"the pieces spell {total} bytes, the text has {size}: the tokenizer is lossy here")
    if not spans:
        return np.full(len(lengths), BASE, np.int32)
    table = np.array(spans)
    first, last = table[:, 0], table[:, 1]
    if offsets is not None:
        first, last = offsets[first], offsets[last]
    index = np.searchsorted(
        last + lead, starts, side="right"
    )  # the first span that ends after the piece starts
    inside = np.minimum(index, len(table) - 1)
    touches = (index < len(table)) & (first[inside] + lead < ends)
    return np.where(touches, table[inside, 2], BASE).astype(np.int32)


def contrastive_pair(
    example: Example,
    tokenizer: Tokenizer,
    render: RenderConfig,
    max_query: int,
    max_tool: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """A query and one tool that answers it, for the retrieval head: query ids, tool ids, tool identity.

    `None` when the row calls no tool or a side does not fit. Two tools that read the same have the same
    identity (`tool_identity`), so the loss can leave out negatives that are the positive.
    """
    if not example.calls:
        return None
    names = list(dict.fromkeys(c.name for c in example.calls))
    name = names[int(rng.integers(len(names)))]
    tool = next((t for t in example.tools if t.name == name), None)
    if tool is None:
        raise ValueError(f"the answer calls {name!r}, which is not among the tools of the row")
    query, ids = tokenizer.encode_array(example.query), tokenizer.encode_array(render_tool(tool, render))
    if len(query) > max_query or len(ids) > max_tool:
        return None
    return query, ids, tool_identity(tool, render)


def tool_identity(tool: Tool, render: RenderConfig) -> int:
    """Stable hash of the tool as the model reads it, in [0, 2^31): the same in every process."""
    digest = hashlib.blake2b(render_tool(tool, render).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1  # an int32 in every array library


_TOOLS = np.array([TOOLS], np.int32)
