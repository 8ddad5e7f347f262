"""Chat rows, as OpenAI's fine-tuning files have them: `messages` with `tool_calls`, and `tools`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from needlex.schema import SchemaError, load_json


def is_chat(raw: Any) -> bool:
    """Whether a row is of that style: it has `messages`, or `tool_calls` in place of `answers`."""
    return isinstance(raw, Mapping) and ("messages" in raw or ("tool_calls" in raw and "answers" not in raw))


def from_chat(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The row as `query`, `tools`, `answers`.

    The query is what the user says, the answers are the calls of the assistant's first message: `[]` if it only talks.
    System messages are not read (a model here answers to the query and the tools alone); what follows the first answer
    must be results of its calls and the words said about them.

    **Raises:** `SchemaError` for a conversation of several turns, one without a user's or an assistant's message, or parts
    that are not text.
    """
    row = {k: v for k, v in raw.items() if k not in ("messages", "tool_calls")}
    if "messages" not in raw:
        return row | {"answers": _calls(raw["tool_calls"])}
    messages = raw["messages"]
    if isinstance(messages, str):
        messages = load_json(messages, "'messages'")
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in messages):
        raise SchemaError("'messages' must be a list of objects")
    asked = [m for m in messages if m.get("role") == "user"]
    told = [m for m in messages if m.get("role") == "assistant"]
    if len(asked) != 1:
        raise SchemaError(
            f"a conversation with {len(asked)} messages of the user; a row here is one query and its answer"
        )
    if not told:
        raise SchemaError("'messages' holds no message of the assistant")
    if messages.index(told[0]) < messages.index(asked[0]):
        raise SchemaError("the assistant speaks before the user; a row here is one query and its answer")
    if any(m.get("tool_calls") for m in told[1:]):
        raise SchemaError(
            "the assistant calls tools again after their results; a row here is one query and its answer"
        )
    return row | {"query": _text(asked[0].get("content")), "answers": _calls(told[0].get("tool_calls"))}


def _calls(raw: Any) -> Any:
    if isinstance(raw, str):
        raw = load_json(raw, "'tool_calls'")
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise SchemaError("'tool_calls' must be a list of calls")
    return raw


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [
            p.get("text") if isinstance(p, Mapping) and p.get("type") == "text" else None for p in content
        ]
        if not all(isinstance(p, str) for p in parts):
            raise SchemaError("the user's message holds parts that are not text")
        return "".join(str(p) for p in parts)
    if not isinstance(content, str):
        raise SchemaError("the user's message has no text")
    return content
