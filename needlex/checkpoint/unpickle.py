"""Read the pickles of Needle v1 without running them.

A pickle is a program. Here every global that a v1 checkpoint names is replaced by an inert stand-in that
collects shape, dtype and bytes, from which our own code builds the arrays. Nothing else can be named at all.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


class ForeignError(ValueError):
    """A checkpoint of another system that cannot be read, taken over or written."""


def load_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """`params` (nested dicts of numpy arrays) and `config` (plain values) of the pickle at `path`.

    **Raises:** `ForeignError` if the file is missing, truncated or no such pickle, if it names anything but
    numpy arrays and plain containers (the message has the name), or if it holds arrays of objects.
    """
    try:
        tree = _Unpickler(io.BytesIO(Path(path).read_bytes())).load()
        if not isinstance(tree, dict) or not isinstance(tree.get("params"), dict):
            raise ForeignError("it is a pickle, but not of {'params': ..., 'config': ...}")
        if not isinstance(tree.get("config"), dict):
            raise ForeignError("it has no 'config'; without it the heads and the activation are unknown")
        return _arrays(tree["params"]), _values(tree["config"])
    except ForeignError as error:
        raise ForeignError(f"{path} is refused: {error}") from None
    except OSError as error:
        raise ForeignError(f"{path} cannot be opened: {error.strerror}") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise ForeignError(
            f"{path} is truncated or no Needle v1 checkpoint ({type(error).__name__}: {error})"
        ) from None


class _StandIn:
    """Base of the stand-ins. All have `__setstate__`, or BUILD could set attributes on the classes."""

    def __setstate__(self, state: Any) -> None:
        raise ForeignError(f"unexpected state for {type(self).__name__}")


class _Bfloat16(_StandIn):
    pass


class _Dtype(_StandIn):
    """dtype(name, align, copy) with state (version, byte order, subdtype, names, fields, ...)."""

    def __init__(self, name: Any, *_: Any):
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        if any(field is not None for field in state[2:5]):
            raise ForeignError("it holds an array with a structured dtype; only plain numbers are read")
        self.order = state[1]

    def resolve(self) -> np.dtype:
        if self.name is _Bfloat16:
            return np.dtype(ml_dtypes.bfloat16)
        if self.name not in (
            "f2",
            "f4",
            "f8",
            "b1",
            *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)),
        ):
            raise ForeignError(f"it holds an array of dtype {self.name!r}; only plain numbers are read")
        dtype = np.dtype(self.name)
        return dtype.newbyteorder(self.order) if self.order in ("<", ">") else dtype


class _Array(_StandIn):
    """Stands for `ndarray` and for `_reconstruct(ndarray, (0,), b'b')`, whose state fills it."""

    value: np.ndarray | None = None

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _build(data, dtype, shape, "F" if fortran else "C")


class _FromBuffer(_StandIn):
    """`_frombuffer`, the form of pickle protocol 5."""

    def __new__(cls, data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None):
        array = _Array()
        value = _build(data, dtype, shape, "F" if order == "F" else "C")
        array.value = value if axes is None else np.ascontiguousarray(value.transpose(axes))
        return array


class _Scalar(_StandIn):
    """`scalar(dtype, bytes)`, read as an array without axes."""

    def __new__(cls, dtype: Any, data: Any):
        array = _Array()
        array.value = _build(data, dtype, (), "C")
        return array


class _Encode(_StandIn):
    """`_codecs.encode`: how protocols 0 to 2 write bytes."""

    def __new__(cls, text: Any, encoding: Any = "latin1"):
        if encoding != "latin1":
            raise ForeignError(f"unexpected encoding {encoding!r}")
        return text.encode("latin1")


def _build(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    if not isinstance(dtype, _Dtype):
        raise ForeignError("it holds an array without a dtype")
    resolved = dtype.resolve()
    if not isinstance(data, bytes | bytearray):
        raise ForeignError(f"it holds an array whose data is a {type(data).__name__}, not bytes")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise ForeignError(f"it holds an array of shape {shape!r}")
    flat = np.frombuffer(data, resolved)
    return flat.reshape(shape, order=order).astype(resolved.newbyteorder("="), order="C")


_ADMITTED: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("ml_dtypes", "bfloat16"): _Bfloat16,
    ("_codecs", "encode"): _Encode,
    ("collections", "OrderedDict"): dict,
    # numpy 1 and numpy 2 name the same functions differently.
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _FromBuffer for core in ("core", "_core")},
}


class _Unpickler(pickle._Unpickler):
    # The one in Python: the one in C grows its memo to whatever index the file names, and takes all memory.
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ADMITTED[module_name, global_name]
        except KeyError:
            raise ForeignError(
                f"it names {module_name}.{global_name}; only numpy arrays and plain containers are read, "
                "since loading anything else would run code from the file"
            ) from None


def _arrays(node: Any, path: str = "") -> Any:
    """The tree with arrays in place of their stand-ins."""
    if isinstance(node, dict):
        for key in node:
            if not isinstance(key, str):
                raise ForeignError(f"the key {key!r} under {path or 'params'} is no string")
        return {key: _arrays(child, f"{path}/{key}" if path else key) for key, child in node.items()}
    if isinstance(node, _Array) and node.value is not None:
        return node.value
    raise ForeignError(f"leaf {path} is a {type(node).__name__}, not an array")


def _values(node: Any) -> Any:
    """The config with Python numbers in place of numpy's."""
    if isinstance(node, dict):
        return {str(key): _values(child) for key, child in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(_values(child) for child in node)
    if isinstance(node, _Array) and node.value is not None:
        return node.value.tolist()
    if isinstance(node, _StandIn | type):
        raise ForeignError(f"the config holds a {node!r}, not a plain value")
    return node
