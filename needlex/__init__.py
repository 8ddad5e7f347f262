"""needlex: train, decode and evaluate tiny tool-calling models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from needlex.api import ToolCaller, load

__all__ = ["ToolCaller", "load"]
__version__ = "0.1.0"


def __getattr__(name: str):
    # Lazy: `import needlex.schema` in a data tool must not start jax.
    if name in __all__:
        from needlex import api

        return getattr(api, name)
    raise AttributeError(f"module 'needlex' has no attribute {name!r}")
