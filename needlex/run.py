"""`python -m needlex.run --checkpoint RUN --query "..." --tools FILE_OR_JSON`: one query, the calls that answer it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from needlex.decode.stream import ArgumentFinished, CallFinished, CallOpened, Event, Finished, ToolsChosen
from needlex.schema import Call, load_json

PROG = "needlex.run"


@dataclass(frozen=True)
class RunArgs:
    """Flags of `run`."""

    checkpoint: str
    """Run directory, one step of it, or a Needle v1 .pkl."""
    query: str
    """What to do, in words."""
    tools: str
    """Tool definitions: a JSON file, or JSON."""
    tokenizer: str | None = None
    """SentencePiece model for a checkpoint without one."""
    max_len: int | None = None
    """Most tokens of the answer (`max_new_tokens`); the model's own budget if not given."""
    constrained: bool = True
    """Admit only calls that are valid for the tools; `--no-constrained` lets the model write what it likes."""
    temperature: float = 0.0
    """0 takes the most likely token; above, tokens are drawn."""
    top_p: float = 1.0
    """Draw among the most likely tokens that together have this probability."""
    seed: int = 0
    """Seed of the draw: the same gives the same answer."""
    max_tools: int | None = None
    """Offer the model at most so many tools, the nearest by its retrieval head."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print the calls, or the error, as one JSON object on the last line."""


def read_tools(text: str) -> Any:
    """JSON from a file of that name, or the text itself.

    **Raises:** `ValueError` saying why it is neither.
    """
    where = "--tools"
    if text.lstrip()[:1] not in ("[", "{"):
        path = Path(text)
        if not path.is_file():
            raise ValueError(f"--tools {text}: no such file, and not JSON (which starts with [ or {{)")
        where = f"--tools {text}"
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as e:
            raise ValueError(f"{where} is not UTF-8 text: byte {e.start}") from None
    return load_json(text, where)


def main(argv: list[str] | None = None) -> list[dict[str, Any]]:
    """Answer one query; prints a call a line and returns them.

    Exits with status 1 and a message when the checkpoint, the tools, the query or the answer are bad.
    """
    args = tyro.cli(RunArgs, args=argv, prog=PROG, description=__doc__)
    import needlex  # starts jax, so only now
    from needlex.api import AnswerError
    from needlex.decode.loop import Sampling

    calls: tuple[Call, ...] = ()
    report: dict[str, Any] = {"query": args.query, "calls": None}
    live = Live(args.constrained)
    try:
        sampling = Sampling(args.temperature, args.top_p, args.seed)
        tools = read_tools(args.tools)
        model = needlex.load(args.checkpoint, tokenizer=args.tokenizer)
        for event in model.stream(
            args.query, tools, args.max_len, args.constrained, sampling, args.max_tools
        ):
            live.show(event)
            if isinstance(event, ToolsChosen):
                report |= {"tools": list(event.names), "note": event.reason}
            elif isinstance(event, Finished):
                calls = event.calls
    except (OSError, ValueError) as e:
        live.close()
        print(f"{PROG}: {e}", file=sys.stderr)
        if args.json:
            text = {"text": e.text} if isinstance(e, AnswerError) else {}
            _show(_json(report | {"error": str(e)} | text))
        raise SystemExit(1) from None
    found = [c.to_json() for c in calls]
    if not found:
        print("no call: none of the tools serves this query")
    if args.json:
        _show(_json(report | {"calls": found}))
    return found


class Live:
    """Prints calls while they are written: `name(argument=value, ...)`, one a line.

    An answer that is not `constrained` may write an argument twice or a name late, so its calls are printed when complete.
    """

    def __init__(self, constrained: bool = True):
        self._constrained = constrained
        self._open = False
        """Whether a line is begun."""
        self._between = ""

    def show(self, event: Event) -> None:
        match event:
            case ToolsChosen():
                print(f"{PROG}: {event.reason}", file=sys.stderr)
            case CallOpened() if self._constrained:
                self._begin(event.name)
            case ArgumentFinished() if self._constrained:
                self._argument(event.name, event.value)
            case CallFinished():
                if not self._constrained:
                    self._begin(event.call.name)
                    for name, value in event.call.arguments.items():
                        self._argument(name, value)
                _show(")")
                self._open = False

    def close(self) -> None:
        """End a line that was begun."""
        if self._open:
            print()

    def _begin(self, name: str) -> None:
        _show(f"{name}(", "")
        self._open, self._between = True, ""

    def _argument(self, name: str, value: Any) -> None:
        _show(f"{self._between}{name}={_json(value)}", "")
        self._between = ", "


def _json(value: Any) -> str:
    """JSON that standard output can show: with escapes only where its encoding has no such character."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _show(text: str, end: str = "\n") -> None:
    encoding = _encoding()  # a name that it has no character for must not end the run
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end, flush=True)


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"


if __name__ == "__main__":
    main()
