"""Configurations as plain data: presets, flags, JSON and hashes.

A configuration is a tree of frozen dataclasses. `--config NAME_OR_PATH` picks a complete one, ordinary flags override single
fields: `--config tiny --optim.lr 1e-3 --mesh.data 8`.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib.util
import json
import os
import sys
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

Config = TypeVar("Config")
Result = TypeVar("Result")


class ConfigError(ValueError):
    """A configuration that cannot be: the message names the field and the fix."""


def preset_folders() -> list[Path]:
    """Where presets lie: `configs/` here, beside the package in a checkout, or inside the installed package."""
    package = Path(__file__).parent
    folders = [Path("configs"), package.parent / "configs", package / "presets"]
    return [f for f in folders if f.is_dir()]


def preset_names(kind: type | None = None) -> list[str]:
    """Names that `--config` accepts, from every folder; for one `kind` those that speak of it (none is run to find out)."""
    paths = [p for f in preset_folders() for p in f.glob("*.py") if not p.stem.startswith("_")]
    if kind is not None:
        paths = [p for p in paths if kind.__name__ in p.read_text(encoding="utf-8", errors="replace")]
    return sorted({p.stem for p in paths})


def load_preset(name: str, kind: type[Config]) -> Config:
    """The configuration called `name`: a preset, a Python file with a variable `config`, or a saved `config.json`.

    **Raises:** `ConfigError` with the names there are, or what is wrong with the file.
    """
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        path = path / "config.json" if path.is_dir() else path
        if not path.is_file():
            raise ConfigError(f"--config {name}: no such file as {path}")
        return read_config(kind, path)
    if path.suffix != ".py":
        found = [f / f"{name}.py" for f in preset_folders() if (f / f"{name}.py").is_file()]
        if not found:
            known = preset_names(kind)
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"--config {name}: no such preset; there are {', '.join(known) or 'none'}{hint}"
            )
        path = found[0]
    elif not path.is_file():
        raise ConfigError(f"--config {name}: no such file")
    spec = importlib.util.spec_from_file_location(f"needlex_preset_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # No bytecode beside a preset: it may lie in a read-only place.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        raise ConfigError(f"--config {name}: {path} fails with {type(e).__name__}: {e}") from e
    finally:
        sys.dont_write_bytecode = before
    config = getattr(module, "config", None)
    if not isinstance(config, kind):
        raise ConfigError(
            f"--config {name}: {path} must define `config`, a {kind.__name__}; it holds {type(config).__name__}"
        )
    return config


def read_config(kind: type[Config], path: Path) -> Config:
    """The configuration that `to_dict` wrote to a JSON file.

    **Raises:** `ConfigError` naming the file and what is wrong in it.
    """
    try:
        return from_dict(kind, json.loads(path.read_text(encoding="utf-8")))
    except json.JSONDecodeError as e:
        raise ConfigError(f"{path} is not valid JSON ({e.msg}, line {e.lineno})") from None
    except (ConfigError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: {e}") from None


def parse_flags(
    kind: type[Config], argv: Sequence[str] | None, prog: str, description: str, default: str
) -> Config:
    """Configuration from the command line: `--config` first, then one flag a field.

    Exits with status 2 and a message that names the field when a flag is unknown or a value impossible.
    """
    name, rest = _take_config(argv, prog)
    name = name or default
    try:
        base = load_preset(name, kind)
        return tyro.cli(
            kind,
            default=base,
            args=rest,
            prog=prog,
            description=f"{description} --config {{{','.join(preset_names(kind))}}} or a path picks the defaults (now: {name}); "
            "the flags below override them.",
            config=(tyro.conf.AvoidSubcommands,),
        )
    except (ConfigError, ValueError) as e:
        _fail(prog, str(e))


def config_name(argv: Sequence[str] | None) -> str | None:
    """What `--config` names on a command line; None without it."""
    return _take_config(argv, "needlex")[0]


def _take_config(argv: Sequence[str] | None, prog: str) -> tuple[str | None, list[str]]:
    rest = list(sys.argv[1:] if argv is None else argv)
    for i, word in enumerate(rest):
        if word == "--config":
            if i + 1 == len(rest):
                _fail(prog, f"--config needs a name or a path; there are {', '.join(preset_names())}")
            return rest[i + 1], rest[:i] + rest[i + 2 :]
        if word.startswith("--config="):
            return word.split("=", 1)[1], rest[:i] + rest[i + 1 :]
    return None, rest


def run_or_exit(prog: str, action: Callable[[], Result]) -> Result:
    """What `action` returns; exits with status 1 and a message for bad input (a traceback with NEEDLEX_TRACEBACK set)."""
    try:
        return action()
    except (ValueError, OSError, RuntimeError) as e:
        if os.environ.get("NEEDLEX_TRACEBACK"):
            raise
        print(f"{prog}: {e}", file=sys.stderr)
        raise SystemExit(1) from None


def _fail(prog: str, message: str) -> typing.NoReturn:
    print(f"{prog}: {message}", file=sys.stderr)
    raise SystemExit(2)


def to_dict(config: Any) -> dict[str, Any]:
    """Plain nested dictionary, ready for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(kind: type[Config], raw: Any, where: str = "") -> Config:
    """Rebuild a configuration from `to_dict`.

    **Raises:** `ConfigError` naming an unknown field (with the nearest name) or a value of the wrong type.
    """
    if not isinstance(raw, dict):
        raise ConfigError(f"{where or 'configuration'} must be an object, not {type(raw).__name__}")
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in raw:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"unknown field {where}{name}" + (f"; did you mean {where}{near[0]}?" if near else "")
            )
    values = {name: _value(hints[name], value, f"{where}{name}") for name, value in raw.items()}
    try:
        return kind(**values)
    except (TypeError, ValueError) as e:
        raise ConfigError(str(e)) from e


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(Any, hint), value, f"{where}.")
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{where} is {value!r}; it must be a list")
        inner = [args[0]] * len(value) if len(args) == 2 and args[1] is Ellipsis else args
        return tuple(
            _value(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(zip(inner, value, strict=False))
        )
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        options = [a for a in args if a is not type(None)]
        return _value(options[0], value, where) if len(options) == 1 else value
    if origin is typing.Literal:
        if value not in args:
            raise ConfigError(f"{where} is {value!r}; choose one of {', '.join(map(repr, args))}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float, str, bool) and (
        not isinstance(value, hint) or (hint is int and isinstance(value, bool))
    ):
        raise ConfigError(f"{where} is {value!r}; it must be of type {hint.__name__}")
    return value


def fingerprint(config: Any, leave_out: Sequence[str] = ()) -> str:
    """First 12 hex digits of the SHA-256 of the configuration, without the top-level fields `leave_out`."""
    plain = {k: v for k, v in to_dict(config).items() if k not in leave_out}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]


def flat(config: Any) -> dict[str, Any]:
    """Dotted field names and values, in order."""
    items: dict[str, Any] = {}

    def walk(prefix: str, node: Any) -> None:
        for f in dataclasses.fields(node):
            value = getattr(node, f.name)
            if dataclasses.is_dataclass(value):
                walk(f"{prefix}{f.name}.", value)
            else:
                items[prefix + f.name] = value

    walk("", config)
    return items


def difference(a: Any, b: Any) -> list[str]:
    """Dotted names of the fields in which two configurations of one kind differ, with both values."""
    left, right = flat(a), flat(b)
    return [f"{k}: {left[k]!r} and {right[k]!r}" for k in left if left[k] != right[k]]
