"""What the doctor found, as lines that are green or red."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """One thing that was checked."""

    area: str
    """constants, updates, parity, loss or environment."""
    name: str
    ok: bool
    detail: str
    """What was found; for a red one also what to do."""
    values: dict[str, Any] = {}  # noqa: RUF012
    """Figures behind it, ready for JSON."""


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """All findings and whether every one is green."""
    return {"ok": all(f.ok for f in findings), "findings": [f._asdict() for f in findings]}


def as_table(findings: Sequence[Finding]) -> str:
    """A line a finding, by area; red ones are marked."""
    lines, area = [], ""
    for f in findings:
        if f.area != area:
            area = f.area
            lines.append(f"\n{area}")
        lines.append(f"  {'ok ' if f.ok else 'RED'} {f.name:<38} {f.detail}")
    red = [f.name for f in findings if not f.ok]
    lines.append(
        f"\n{len(findings) - len(red)} of {len(findings)} checks passed"
        + (f"; red: {', '.join(red)}" if red else "")
    )
    return "\n".join(lines).lstrip("\n")
