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
    """Most tokens of the answer; the model's own budget if not given."""
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
    """Print the calls as one JSON object on the last line."""


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

    Exits with status 1 and a message when the checkpoint, the tools or the answer are bad.
    """
    args = tyro.cli(RunArgs, args=argv, prog=PROG, description=__doc__)
    import needlex
    from needlex.api import AnswerError
    from needlex.decode.loop import Sampling

    calls: tuple[Call, ...] = ()
    offered: dict[str, Any] = {}
    live = Live()
    try:
        sampling = Sampling(args.temperature, args.top_p, args.seed)
        tools = read_tools(args.tools)
        model = needlex.load(args.checkpoint, tokenizer=args.tokenizer)
        for event in model.stream(
            args.query, tools, args.max_len, args.constrained, sampling, args.max_tools
        ):
            live.show(event)
            if isinstance(event, ToolsChosen):
                offered = {"tools": list(event.names), "note": event.reason}
            elif isinstance(event, Finished):
                calls = event.calls
    except AnswerError as e:
        live.close()
        print(f"{PROG}: {e}", file=sys.stderr)
        if args.json:
            report = {"query": args.query, "calls": None, "error": str(e), "text": e.text}
            print(json.dumps(report, ensure_ascii=False))
        raise SystemExit(1) from None
    except (OSError, ValueError) as e:
        print(f"{PROG}: {e}", file=sys.stderr)
        if args.json:
            print(json.dumps({"query": args.query, "calls": None, "error": str(e)}, ensure_ascii=False))
        raise SystemExit(1) from None
    found = [c.to_json() for c in calls]
    if not found:
        print("no call: none of the tools serves this query")
    if args.json:
        print(json.dumps({"query": args.query, "calls": found, **offered}, ensure_ascii=False))
    return found


class Live:
    """Prints calls while they are written: `name(argument=value, ...)`, one a line."""

    def __init__(self):
        self.open = False
        """Whether a line is begun."""
        self._between = ""

    def show(self, event: Event) -> None:
        match event:
            case ToolsChosen():
                print(f"{PROG}: {event.reason}", file=sys.stderr)
            case CallOpened():
                print(f"{event.name}(", end="", flush=True)
                self.open, self._between = True, ""
            case ArgumentFinished():
                value = json.dumps(event.value, ensure_ascii=False)
                print(f"{self._between}{event.name}={value}", end="", flush=True)
                self._between = ", "
            case CallFinished():
                print(")", flush=True)
                self.open = False

    def close(self) -> None:
        """End a line that was begun."""
        if self.open:
            print()


if __name__ == "__main__":
    main()
