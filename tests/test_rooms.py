"""The plan of the house: which room may import which, how large a file may grow, what no file may hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import needlex

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "needlex"
ROWS = (
    {"cli"},
    {"run", "generate_data", "doctor"},
    {"finetune"},
    {"loading"},
    {"api"},
    {"train", "eval"},
    {"checkpoint", "decode", "functions", "adapt"},
    {"model", "losses", "optim", "compress", "data", "hints"},
    {"nn"},
    {"types", "batch", "schema", "tree", "precision", "sharding", "track", "config"},
    {"definitions"},
)
"""Rooms from the door to the cellar: a room imports itself and rooms of the rows below, never its neighbours."""
UPWARD = {("eval", "loading")}
"""`eval` measures through the public door what a user gets."""
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def modules(text: str) -> set[str]:
    """Full names of what a file imports, also inside functions; relative imports are refused.

    `from a import b` gives `a.b` where that is a module of ours, else `a`.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, (
                f"line {node.lineno}: a relative import hides its room; write the full name"
            )
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {m if m in MODULES else str(node.module) for m in inner}
    return found


def imported(path: Path) -> set[str]:
    return modules(path.read_text(encoding="utf-8"))


def room_of(module: str) -> str:
    """`needlex.data.render` is in `data`; `import needlex` is for what its front door gives, which is `loading`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "loading"


def rooms_of(path: Path) -> set[str]:
    return {room_of(m) for m in imported(path) if m.split(".")[0] == "needlex"}


def wrong_ways(room: str, others: set[str]) -> set[str]:
    row = {name: i for i, names in enumerate(ROWS) for name in names}
    return {o for o in others - {room} if row[o] <= row[room] and (room, o) not in UPWARD}


@pytest.mark.parametrize("path", [p for p in FILES if p != PACKAGE / "__init__.py"], ids=name_of)
def test_rooms_import_only_rooms_below_them(path):
    room = room_of(name_of(path))
    assert wrong_ways(room, rooms_of(path)) == set()


def test_a_wrong_way_is_seen():
    """The check itself: every form of import, and each direction that the plan forbids by name."""
    for text in (
        "import needlex.train.loop",
        "from needlex.train import loop",
        "from needlex.train.loop import train",
        "from needlex import train",
        "def f():\n    if 1:\n        from needlex.train.loop import train",
    ):
        assert {room_of(m) for m in modules(text)} == {"train"}, text
    assert {room_of(m) for m in modules("import needlex")} == {"loading"}
    for room, other in [
        ("losses", "model"), ("optim", "model"), ("data", "model"), ("data", "nn"), ("nn", "compress"), ("model", "decode"),
        ("train", "eval"), ("train", "loading"), ("eval", "train"), ("decode", "checkpoint"), ("tree", "nn"), ("model", "data"),
    ]:  # fmt: skip
        # Data is above nn, and is held off it by the next test.
        assert wrong_ways(room, {other}) == (set() if (room, other) == ("data", "nn") else {other})
    with pytest.raises(AssertionError, match="relative"):
        modules("from .loop import train")


def test_the_data_room_knows_no_model_and_no_accelerator():
    """Nor does anything that it imports, however far down."""
    seen, queue = set(), [m for m in MODULES if room_of(m) == "data"]
    while queue:
        module = queue.pop()
        if module in seen:
            continue
        seen.add(module)
        found = imported(MODULES[module])
        assert not {m.split(".")[0] for m in found} & {"jax", "jaxlib", "equinox", "optax", "flax"}, module
        queue += [m for m in found if m in MODULES and m != "needlex"]
    assert {room_of(m) for m in seen} == {"data", "schema", "batch", "definitions"}


def test_the_package_starts_without_an_accelerator():
    """`import needlex.schema` runs `needlex/__init__.py` first, at whose top level nothing may be imported."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    top = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert {getattr(n, "module", None) for n in top} == {"__future__", "typing"}
    assert set(needlex.__all__) == {"ToolCaller", "load"} and callable(needlex.load)


def test_files_are_rooms_not_halls():
    sizes = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert {name: size for name, size in sizes.items() if size > 350} == {}


def test_every_room_is_on_the_plan():
    rooms = {room_of(name) for name in MODULES if name != "needlex"} - {"presets"}
    assert rooms == set().union(*ROWS)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    plan, directions = text.split("## Directions")
    assert {r for r in rooms if not re.search(rf"\b{r}(/|\.py)", plan)} == set()
    arrows = directions.split("```")[1]
    assert set(re.findall(r"\w+", arrows)) == rooms
    # The line in the document and the rows above are one order.
    written = [set(re.findall(r"\w+", part)) for part in arrows.split("->")]
    place = {room: i for i, part in enumerate(written) for room in part}
    for i, names in enumerate(ROWS):
        for lower in set().union(*ROWS[i + 1 :]):
            assert all(place[name] <= place[lower] for name in names), (names, lower)


PROJECT = ("needlex", "configs", "tests", "tools", "docs", ".ci")
TEXT = {".py", ".md", ".toml", ".txt", ".json", ".sh", ".yml", ".yaml", ".cfg", ""}
UNWANTED = {
    "a path of one machine": r"(?<![\w.$}~])/(?:home|root|work|tmp|Users|mnt|opt|srv|scratch)/\w|\b[A-Z]:\\\\?Users",
    "a host of packages": r"(?:[\w-]+\.)*(?:py"
    + r"pi|pythonhosted|anaconda)\.\w+|(?:extra-)?index"
    + r"-url",
    "an address of a machine": r"\b\w+://(?:\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|local" + "host)",
}


def test_no_file_names_a_machine_or_a_host_of_packages():
    files = [p for folder in PROJECT for p in (ROOT / folder).rglob("*")]
    files += [p for p in ROOT.iterdir() if p.name not in ("uv.lock", ".git")]
    checked = 0
    for path in files:
        if not path.is_file() or path.suffix not in TEXT or "__pycache__" in path.parts:
            continue
        checked += 1
        text = path.read_text(encoding="utf-8")
        for what, pattern in UNWANTED.items():
            found = re.search(pattern, text)
            assert not found, f"{path} holds {what}: {found and found[0]!r}"
    assert checked > 100


@pytest.mark.parametrize(
    "text",
    [
        'open("/ho' + 'me/me/a.txt")',
        "cd /wo" + "rk/main",
        "see /tm" + "p/x",
        "C:\\Us" + "ers\\me",
        "https://files.python" + "hosted.org/x",
        "--extra-index" + "-url x",
        "py" + "pi.org",
        "http://10." + "0.0.7:3128",
    ],
)
def test_what_is_unwanted_is_found(text):
    assert any(re.search(pattern, text) for pattern in UNWANTED.values())
