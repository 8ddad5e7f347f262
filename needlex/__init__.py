"""needlex: train, decode and evaluate tiny tool-calling models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from needlex.api import ToolCaller
    from needlex.loading import load

__all__ = ["ToolCaller", "load"]
ROOMS = {"ToolCaller": "needlex.api", "load": "needlex.loading"}
__version__ = "0.1.0"


def __getattr__(name: str):
    # Lazy: `import needlex.schema` in a data tool must not start jax.
    if name in ROOMS:
        from importlib import import_module

        return getattr(import_module(ROOMS[name]), name)
    raise AttributeError(f"module 'needlex' has no attribute {name!r}")
