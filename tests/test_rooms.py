"""The plan of the house: which room may import which, and how large a file may grow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "needlex"
ROWS = (
    {"cli"},
    {"api", "run", "generate_data"},
    {"train", "eval", "route"},
    {"checkpoint", "decode", "adapt", "track"},
    {"model", "losses", "optim", "data", "compress"},
    {"nn"},
    {"types", "batch", "schema", "tree", "precision", "sharding", "config"},
)
"""Rooms from the door to the cellar: a room imports rooms below it, and those of its own row."""
UPWARD = {("train", "api"), ("eval", "api"), ("nn", "compress")}
"""Doors the other way: `train` and `eval` use the public door for what a user would do with it."""
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def row(name: str) -> int:
    return next(i for i, names in enumerate(ROWS) if name in names)


def imported(path: Path) -> set[str]:
    """Modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def rooms_of(path: Path) -> set[str]:
    return {m.split(".")[1] for m in imported(path) if m.startswith("needlex.")} - {"presets"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_import_only_rooms_below_them(path):
    if room(path) == "presets":
        return
    for other in rooms_of(path) - {room(path)}:
        assert row(other) >= row(room(path)) or (room(path), other) in UPWARD, f"{path} imports {other}"


def test_the_data_room_knows_no_model_and_no_accelerator():
    for path in (PACKAGE / "data").rglob("*.py"):
        roots = {m.split(".")[0] for m in imported(path)}
        assert not roots & {"jax", "equinox", "optax"}, path
        assert not rooms_of(path) & {"model", "nn", "train", "optim"}, path


def test_files_are_rooms_not_halls():
    sizes = {str(p.relative_to(PACKAGE)): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert {name: size for name, size in sizes.items() if size > 350} == {}


def test_every_room_is_on_the_plan():
    found = {room(p) for p in FILES} - {"presets"}
    assert found <= set().union(*ROWS)
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert {
        name
        for name in found
        if f"`{name}" not in text and f"{name}/" not in text and f"{name}.py" not in text
    } == set()
