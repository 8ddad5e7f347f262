"""`python -m needlex.run --checkpoint RUN --query "..." --tools FILE_OR_JSON`: one query, the calls that answer it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from needlex.schema import load_json

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

    try:
        tools = read_tools(args.tools)
        calls = needlex.load(args.checkpoint, tokenizer=args.tokenizer).call(
            args.query, tools, args.max_len, args.constrained
        )
    except AnswerError as e:
        print(f"{PROG}: {e}", file=sys.stderr)
        if args.json:
            print(
                json.dumps(
                    {"query": args.query, "calls": None, "error": str(e), "text": e.text}, ensure_ascii=False
                )
            )
        raise SystemExit(1) from None
    except (OSError, ValueError) as e:
        print(f"{PROG}: {e}", file=sys.stderr)
        raise SystemExit(1) from None
    found = [c.to_json() for c in calls]
    for call in found:
        print(
            f"{call['name']}({', '.join(f'{k}={json.dumps(v, ensure_ascii=False)}' for k, v in call['arguments'].items())})"
        )
    if not found:
        print("no call: none of the tools serves this query")
    if args.json:
        print(json.dumps({"query": args.query, "calls": found}, ensure_ascii=False))
    return found


if __name__ == "__main__":
    main()
