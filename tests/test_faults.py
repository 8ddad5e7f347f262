"""The list of known faults names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
TEXT = (HERE.parent / "docs" / "faults.md").read_text(encoding="utf-8")


def test_every_test_that_the_list_of_faults_names_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 40
    for file, name in named:
        tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
        assert name in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}, f"{file}::{name}"


def test_every_fault_of_the_main_job_has_a_line():
    listed = set(re.findall(r"^\| ([A-Z]\d+) ", TEXT, re.M))
    wanted = [("A", 7), ("N", 10), ("D", 7), ("T", 3)]
    assert {f"{kind}{i}" for kind, last in wanted for i in range(1, last + 1)} <= listed
