"""The README's Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import needlex
from tests.test_api import MANY
from tests.test_api_stream import loaded
from tests.train.runs import TOOLS

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_readme_runs(monkeypatch, capsys):
    model = loaded()
    monkeypatch.setattr(needlex, "load", lambda _: model, raising=False)
    ids = np.ones((1, 4), np.int32)
    given = {"tools": TOOLS, "many_tools": MANY[:20], "enc": ids, "dec": ids, "tokens": ids[0]}
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    exec(compile(code, "README.md", "exec"), given)
    assert "Finished(" in capsys.readouterr().out
    assert isinstance(given["calls"], list)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"just ([a-z-]+)", TEXT))))
def test_the_recipes_of_the_readme_exist(command):
    recipes = (Path(__file__).parents[1] / "justfile").read_text(encoding="utf-8")
    assert re.search(rf"^{command}\b.*:", recipes, re.M)
