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


def test_every_fault_of_this_system_has_a_line_and_a_test():
    listed = dict(re.findall(r"^\| ([A-Z]\d+) .*\|(.*)\|$", TEXT, re.M))
    wanted = [("A", 1, 7), ("N", 1, 15), ("D", 1, 13), ("T", 1, 9), ("C", 3, 6)]
    assert {f"{kind}{i}" for kind, first, last in wanted for i in range(first, last + 1)} <= listed.keys()
    assert [fault for fault, tests in listed.items() if "::" not in tests] == []
