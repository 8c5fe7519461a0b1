"""Run assets from Python, on numpy arrays, without torch.

``Model.load(path).function("main").run(inputs={...}, states={...})`` executes one call. States are
updated in the arrays that are given for them; outputs are returned by name.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Model", "ModelFunction", "RunError", "Value"]

RunError = _core.RunError

# The runtime's names for dtypes that numpy has under another name.
_NUMPY = {"cfloat32": "complex64", "cfloat64": "complex128"}
# Those that only ml_dtypes has: its name, and the dtype of the bare bit pattern.
_ML_DTYPES = {
    "bfloat16": ("bfloat16", "uint16"),
    "float8e4m3fn": ("float8_e4m3fn", "uint8"),
    "float8e5m2": ("float8_e5m2", "uint8"),
    "float8e8m0fn": ("float8_e8m0fnu", "uint8"),
    "float4e2m1fn": ("float4_e2m1fn", "uint8"),
    "int4": ("int4", "int8"),
    "int2": ("int2", "int8"),
    "uint4": ("uint4", "uint8"),
    "uint2": ("uint2", "uint8"),
    "uint1": ("uint1", "uint8"),
    "uint3": ("uint3", "uint8"),
    "uint6": ("uint6", "uint8"),
}


@dataclass(frozen=True)
class Value:
    """An input, state or output of a function."""

    name: str
    #: The runtime's name: ``float32``, ``bfloat16``, ``int32``, ``bool`` …
    dtype: str
    #: Extents; ``None`` where the caller chooses.
    shape: tuple[int | None, ...]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The dtype of an array for it: numpy's, that of ``ml_dtypes`` where it is installed, or an
        unsigned integer that holds the bit pattern."""
        return _numpy_dtype(self.dtype)


class Model:
    """An asset ready to run; make it with :meth:`load`."""

    def __init__(self, core: _core.Model, path: str) -> None:
        self._core = core
        self.path = path

    @classmethod
    def load(cls, path: str | bytes | os.PathLike[str] | os.PathLike[bytes], *, threads: int = 1) -> Model:
        """Read the asset in the directory ``path``; large products run on ``threads`` threads, 1 to 256.

        Raises :class:`~coreai_audit.AuditError` when it cannot be read or uses ops that this runtime
        does not have.
        """
        if not 1 <= threads <= 256:
            raise ValueError(f"threads must be in 1..=256, got {threads}")
        return cls(_core.Model(os.fsdecode(path), threads), os.fsdecode(path))

    @property
    def function_names(self) -> tuple[str, ...]:
        """The functions, in file order."""
        return tuple(self._core.function_names())

    def function(self, name: str | None = None) -> ModelFunction:
        """The function with that name; without one, the only function, or ``main``."""
        if name is None:
            names = self.function_names
            if len(names) != 1 and "main" not in names:
                raise RunError(f"{self.path} has the functions {', '.join(names)}: name one of them")
            name = names[0] if len(names) == 1 else "main"
        return ModelFunction(self._core, name)

    def __repr__(self) -> str:
        return f"Model({self.path!r}, functions={list(self.function_names)})"


class ModelFunction:
    """One entry point of a model."""

    def __init__(self, core: _core.Model, name: str) -> None:
        self._core = core
        self.name = name
        ports = [tuple(Value(n, d, tuple(s)) for n, d, s in part) for part in core.ports(name)]
        #: What it reads, what it reads and updates, and what it computes; each in descriptor order.
        self.inputs: tuple[Value, ...] = ports[0]
        self.states: tuple[Value, ...] = ports[1]
        self.outputs: tuple[Value, ...] = ports[2]

    def zero_states(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Array]:
        """Arrays of zeros for all states; ``shapes`` gives those with a dynamic extent."""
        import numpy as np

        if shapes is not None and not isinstance(shapes, Mapping):
            raise RunError(
                f"function {self.name}: shapes must be a dictionary of extents by name, "
                f"got {type(shapes).__name__}"
            )
        given = dict(shapes or {})
        for name in given:
            self._port("state", self.states, name)
        states: dict[str, Array] = {}
        for port in self.states:
            shape = self._extents(port, given.get(port.name))
            try:
                states[port.name] = np.zeros(shape, port.numpy)
            except (MemoryError, OverflowError, ValueError) as error:
                raise RunError(
                    f"function {self.name}: state {port.name}: no memory for {port.dtype} {list(shape)}"
                ) from error
        return states

    def _extents(self, port: Value, given: Any) -> tuple[int, ...]:
        """The extents of a state: the port's, with those that are given for the dynamic ones."""
        where = f"function {self.name}: state {port.name}"
        wanted = ["?" if d is None else d for d in port.shape]
        shown = f"[{', '.join(map(str, wanted))}]"
        if given is None:
            known = [d for d in port.shape if d is not None]
            if len(known) < len(port.shape):
                raise RunError(
                    f"{where} has the shape {shown}: "
                    f"give its extents, as in zero_states({{{port.name!r}: (…)}})"
                )
            return tuple(known)
        if isinstance(given, str | bytes):
            raise RunError(f"{where}: {given!r} is no shape; expected the extents of {shown}")
        try:
            extents = tuple(operator.index(d) for d in given)
        except TypeError:
            raise RunError(f"{where}: {given!r} is no shape; expected the extents of {shown}") from None
        if any(d < 0 for d in extents):
            raise RunError(f"{where}: the extents {list(extents)} are negative; expected {shown}")
        fits = len(extents) == len(port.shape) and all(
            p is None or p == d for p, d in zip(port.shape, extents, strict=True)
        )
        if not fits:
            raise RunError(f"{where} has shape {list(extents)}, expected {shown}")
        return extents

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        states: Mapping[str, Array] | None = None,
        output_views: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """One call.

        Every input and every state must be given by name, exact in dtype and shape; nothing is ever
        converted, but Python numbers and lists become arrays of the port's dtype. States must be
        writable, contiguous arrays: they are updated in place and never returned. An output with a view
        is written there and not returned; the others come back by name, in descriptor order. Other
        threads may run meanwhile, and must leave the states alone.
        """
        states = {} if states is None else states
        for what, mapping in [("inputs", inputs), ("states", states), ("output_views", output_views)]:
            if mapping is not None and not isinstance(mapping, Mapping):
                raise RunError(
                    f"function {self.name}: {what} must be a dictionary of arrays by name, "
                    f"got {type(mapping).__name__}"
                )
        given = [self._input(name, value) for name, value in (inputs or {}).items()]
        lent = [self._state(name, value) for name, value in states.items()]
        views = {n: self._view(n, v) for n, v in (output_views or {}).items()}
        self._apart(states, views)
        results: dict[str, Array] = {}
        shapes = [(n, list(v.shape)) for n, v in views.items()]
        for name, dtype, shape, data in self._core.run(self.name, given, lent, shapes):
            array = _array(dtype, shape, data)
            view = views.get(name)
            if view is None:
                results[name] = array
            else:
                # The same bits: a view may be of the bit pattern.
                view[...] = array.view(view.dtype)
        return results

    def _input(self, name: str, value: Any) -> _core.Given:
        import numpy as np

        port = self._port("input", self.inputs, name)
        if not isinstance(value, np.ndarray):
            value = self._array_of(port, value)
        self._check("input", port, value)
        return name, port.dtype, list(value.shape), _bytes(np.ascontiguousarray(value))

    def _array_of(self, port: Value, value: Any) -> Array:
        """A number, a list, or an array of another library as a numpy array."""
        import numpy as np

        where = f"function {self.name}: input {port.name}"
        try:
            if hasattr(value, "dtype"):
                return np.asarray(value.detach() if hasattr(value, "detach") else value)
            kind = np.asarray(value).dtype.kind
            if kind not in "iufcbV":
                raise RunError(f"{where} is no array of numbers")
            if port.numpy.kind in "iub" and kind in "fc":
                raise RunError(f"{where} is floating point; {port.dtype} takes integers alone")
            return np.asarray(value, port.numpy)
        except (ValueError, TypeError, OverflowError, RuntimeError) as error:
            if isinstance(error, RunError):
                raise
            raise RunError(f"{where} is no array of {port.dtype}: {error}") from error

    def _state(self, name: str, value: Any) -> _core.Given:
        import numpy as np

        port = self._port("state", self.states, name)
        where = f"function {self.name}: state {name}"
        if not isinstance(value, np.ndarray):
            raise RunError(
                f"{where} is a {type(value).__name__}; a state is updated in place, "
                "so it must be a numpy array"
            )
        self._check("state", port, value)
        if not value.flags.writeable:
            raise RunError(f"{where} is a read-only array; a state is updated in place: give a copy")
        if not value.flags.c_contiguous:
            raise RunError(
                f"{where} is not contiguous; a state is updated in place: give np.ascontiguousarray(...)"
            )
        return name, port.dtype, list(value.shape), _bytes(value)

    def _view(self, name: str, value: Any) -> Array:
        import numpy as np

        port = self._port("output", self.outputs, name)
        if not isinstance(value, np.ndarray) or not value.flags.writeable:
            raise RunError(f"function {self.name}: the view of output {name} must be a writable numpy array")
        self._check("output", port, value)
        view: Array = value
        return view

    def _apart(self, states: Mapping[str, Array], views: Mapping[str, Array]) -> None:
        """Outputs are written when the states have been, and would overwrite them, or each other."""
        import numpy as np

        seen: dict[str, Array] = {}
        for name, view in views.items():
            for other, array in seen.items():
                if np.may_share_memory(view, array):
                    raise RunError(
                        f"function {self.name}: the views of outputs {other} and {name} share memory; "
                        "each needs an array of its own"
                    )
            seen[name] = view
            for state, array in states.items():
                if np.may_share_memory(view, array):
                    raise RunError(
                        f"function {self.name}: the view of output {name} and state {state} share memory; "
                        "each needs an array of its own"
                    )

    def _port(self, kind: str, ports: tuple[Value, ...], name: str) -> Value:
        for port in ports:
            if port.name == name:
                return port
        known = ", ".join(p.name for p in ports) or "none"
        raise RunError(f"function {self.name} has no {kind} {name}; it has {known}")

    def _check(self, kind: str, port: Value, value: Array) -> None:
        import numpy as np

        allowed = [port.numpy]
        if port.dtype in _ML_DTYPES:
            allowed.append(np.dtype(_ML_DTYPES[port.dtype][1]))
        if value.dtype not in allowed or not value.dtype.isnative:
            raise RunError(
                f"function {self.name}: {kind} {port.name} is {value.dtype}, expected {port.dtype}; "
                f"values are never converted: use .astype({port.numpy.name!r})"
            )


def _numpy_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    if name in _ML_DTYPES:
        special, bits = _ML_DTYPES[name]
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(bits)
        kind = getattr(ml_dtypes, special, None)
        return np.dtype(bits if kind is None else kind)
    try:
        return np.dtype(_NUMPY.get(name, name))
    except TypeError:
        raise RunError(f"numpy has no type for values of {name}") from None


def _bytes(array: Array) -> memoryview:
    """The memory of a contiguous array as bytes, shared with it."""
    import numpy as np

    return array.reshape(-1).view(np.uint8).data


def _array(dtype: str, shape: list[int], data: bytes) -> Array:
    import numpy as np

    # A copy, so that the caller may write to it.
    result: Array = np.frombuffer(data, np.uint8).copy().view(_numpy_dtype(dtype)).reshape(shape)
    return result
