"""The reference trace: what PyTorch computes, call after call, recorded before anything is exported.

Runs on copies, so that neither the caller's module nor its arguments change. The form of the document
is described in ``docs/trace.md``; this side makes it and the bytes of its tensors, Rust writes the file.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..recipe import Call, Recipe
from . import outside, past, paths, randomness, values
from .observe import clone_arguments

#: Calls of a recipe that gives none: the example so many times.
DEFAULT_STEPS = 4
# Above this many bytes of states in one run, only those after its last call are recorded.
_STATES_MOST_BYTES = 2**30
# Parameters above this many bytes are shared with the copy instead of copied.
_COPY_PARAMETERS_BELOW = 2**28

#: A tensor's dtype in the file, its shape there and its bytes.
Stored = tuple[str, list[int], bytes]


class Unavailable(Exception):
    """Why there is no reference, in one line."""


def record(
    recipe: Recipe, again: Callable[[], AbstractContextManager[Recipe]], steps: int | None
) -> tuple[str, list[Stored]]:
    """The document and its tensors.

    ``again`` makes the same recipe once more, for modules that cannot be copied; ``steps`` is how often
    the example is repeated where the recipe gives no calls. Raises :class:`Unavailable` when there is
    nothing that eager PyTorch could run.
    """
    store = _Store()
    first = _run(recipe, again, steps, store, zeros=False)
    runs = [first.document]
    if any(_nonzero(b) for b in first.start):
        runs.append(_run(recipe, again, steps, store, zeros=True, written=first.written).document)
    document = {"schema_version": 1, "functions": first.functions, "runs": runs, "contract": None}
    return json.dumps(document), store.tensors


class _Store:
    """Tensors by running number; equal contents once."""

    def __init__(self) -> None:
        self.tensors: list[Stored] = []
        self.known: dict[Stored, int] = {}

    def put(self, tensor: Any) -> dict[str, Any]:
        """Keep the contents; returns the entry of the document."""
        shape = [int(d) for d in tensor.shape]
        stored = _stored(tensor)
        key = (stored[0], tuple(stored[1]), stored[2])
        number = self.known.setdefault(key, len(self.tensors))  # type: ignore[arg-type]
        if number == len(self.tensors):
            self.tensors.append(stored)
        return {"tensor": str(number), "dtype": _dtype(tensor), "shape": shape}


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _stored(tensor: Any) -> Stored:
    import torch

    tensor = tensor.detach()
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise Unavailable(f"a {_dtype(tensor)} tensor with layout {tensor.layout} cannot be recorded")
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    elif _dtype(tensor).startswith("float8"):
        tensor = tensor.view(torch.uint8)
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    data = ctypes.string_at(tensor.data_ptr(), size) if size else b""
    return _dtype(tensor), [int(d) for d in tensor.shape], data


def _nonzero(value: Any) -> bool:
    return value.numel() > 0 and bool((value != 0).any())


class _Run:
    """What one run over all calls came to."""

    def __init__(self) -> None:
        self.functions: list[dict[str, Any]] = []
        self.written: list[set[str]] = []
        self.start: list[Any] = []
        self.document: dict[str, Any] = {}


def _run(
    recipe: Recipe,
    again: Callable[[], AbstractContextManager[Recipe]],
    steps: int | None,
    store: _Store,
    zeros: bool,
    written: list[set[str]] | None = None,
) -> _Run:
    """All calls of all entry points, one after the other, on shared copies of their modules."""
    with contextlib.ExitStack() as stack:
        entries = stack.enter_context(_copies(recipe, again))
        modules = [e.module for e in entries]
        stack.enter_context(outside.untouched(*modules))
        for entry in entries:
            if entry.exported is None:
                entry.module.train(entry.training)  # type: ignore[union-attr]
        if zeros:
            for module, names in zip(modules, written or [], strict=True):
                _clear(module, names)
        randomness.seed(recipe.seed)
        return _record(entries, steps, store, "zeros" if zeros else "registered", written)


@contextlib.contextmanager
def _copies(recipe: Recipe, again: Callable[[], AbstractContextManager[Recipe]]) -> Iterator[list[Recipe]]:
    """The entry points with modules of their own; what they share stays shared among them."""
    entries = [_runnable(e) for e in recipe.entry_points()]
    memo: dict[int, Any] = {}
    parameters = {id(p): p for e in entries for p in e.module.parameters()}  # type: ignore[union-attr]
    if sum(p.numel() * p.element_size() for p in parameters.values()) > _COPY_PARAMETERS_BELOW:
        memo.update(parameters)
    try:
        copies = []
        for entry in entries:
            fresh = copy.copy(entry)
            fresh.module = copy.deepcopy(entry.module, memo)
            copies.append(fresh)
        past.check([c.module for c in copies], memo)
    except Exception:
        with again() as made:
            yield [_runnable(e) for e in made.entry_points()]
        return
    yield copies


def _runnable(entry: Recipe) -> Recipe:
    """The entry point with a module that eager PyTorch can call."""
    if entry.module is not None:
        return entry
    import torch

    program = entry.exported
    if not isinstance(program, torch.export.ExportedProgram):
        raise Unavailable(f"entry point {entry.entrypoint_name} has no module that PyTorch could run")
    made = copy.copy(entry)
    made.module = program.module()
    if entry.calls is None and not entry.args and not entry.kwargs and program.example_inputs:
        made.args, made.kwargs = program.example_inputs
    return made


def _clear(module: Any, names: set[str]) -> None:
    import torch

    with torch.no_grad():
        for name, buffer in module.named_buffers(remove_duplicate=False):
            if name in names:
                buffer.zero_()


class _Watch:
    """Which tensors something wrote into: told by identity, version and, where small, content."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        freeze = size < _COPY_PARAMETERS_BELOW
        self.before = {n: (t, t._version, values.freeze(t) if freeze else None) for n, t in tensors.items()}

    def written(self, now: dict[str, Any]) -> set[str]:
        """The names whose tensor is another one, or was written into."""
        found = set()
        for name, tensor in now.items():
            old = self.before.get(name)
            if (
                old is None
                or old[0] is not tensor
                or old[1] != tensor._version
                or (old[2] is not None and not values.same(old[2], tensor))
            ):
                found.add(name)
        return found


def _buffers(module: Any) -> dict[str, Any]:
    return {name: b for name, b in module.named_buffers(remove_duplicate=False) if b is not None}


def _record(
    entries: list[Recipe], steps: int | None, store: _Store, kind: str, known: list[set[str]] | None
) -> _Run:
    run = _Run()
    watches = [_Watch(_buffers(e.module)) for e in entries]
    # Copies now: what turns out to be written is known only afterwards.
    starts = [{n: b.detach().clone() for n, b in _buffers(e.module).items()} for e in entries]
    seen: list[list[_Seen]] = [[] for _ in entries]
    memo: dict[int, Any] = {}
    stop = False
    for entry, mine, watch in zip(entries, seen, watches, strict=True):
        for call in _calls(entry, steps):
            if not stop:
                mine.append(_call(entry, call, memo, watch))
                stop = mine[-1].error is not None
    run.written = [w.written(_buffers(e.module)) for w, e in zip(watches, entries, strict=True)]
    # What another run wrote is recorded here as well, whether or not this one comes to it.
    run.written = [own | more for own, more in zip(run.written, known or run.written, strict=True)]
    calls: list[dict[str, Any]] = []
    order = [(e, s) for e, mine in enumerate(seen) for s in mine]
    states = [t for e, names in enumerate(run.written) for n, t in starts[e].items() if n in names]
    size = sum(t.numel() * t.element_size() for t in states)
    keep_all = size * len(order) <= _STATES_MOST_BYTES
    for position, (index, one) in enumerate(order):
        keep = keep_all or position + 1 == len(order)
        held = {n: t for n, t in {**starts[index], **one.buffers}.items() if n in run.written[index]}
        calls.append(one.document(entries[index].entrypoint_name, held, store, keep))
    run.start = [starts[e][n] for e, names in enumerate(run.written) for n in sorted(names) if n in starts[e]]
    run.document = {
        "kind": kind,
        "start": {
            e.entrypoint_name: {
                n: store.put(starts[i][n]) if n in starts[i] else None for n in sorted(run.written[i])
            }
            for i, e in enumerate(entries)
        },
        "calls": calls,
    }
    for index, entry in enumerate(entries):
        run.functions.append(_function(entry, starts[index], run.written[index], seen[index]))
    return run


def _calls(entry: Recipe, steps: int | None) -> list[Call]:
    calls = entry.reference_calls()
    return calls if entry.calls is not None else calls * (steps or DEFAULT_STEPS)


def _function(entry: Recipe, buffers: dict[str, Any], written: set[str], seen: list[_Seen]) -> dict[str, Any]:
    groups: dict[int, list[str]] = {}
    for name, buffer in _buffers(entry.module).items():
        groups.setdefault(id(buffer), []).append(name)
    arguments: dict[str, dict[str, Any]] = {}
    constants: dict[str, str] = {}
    for one in seen:
        for path, tensor in one.inputs.items():
            described = arguments.setdefault(path, {"path": path, "dtype": _dtype(tensor), "written": False})
            described["written"] |= path in one.changed
        for path, value in one.constants.items():
            constants.setdefault(path, value)
    return {
        "name": entry.entrypoint_name,
        "training": entry.training,
        "buffers": [
            {
                "name": names[0],
                "aliases": names[1:],
                "dtype": _dtype(buffers.get(names[0], _buffers(entry.module)[names[0]])),
                "shape": [int(d) for d in _buffers(entry.module)[names[0]].shape],
                "written": any(n in written for n in names),
            }
            for names in groups.values()
        ],
        "arguments": list(arguments.values()),
        "constants": [{"path": p, "value": v} for p, v in constants.items()],
    }


class _Seen:
    """One call as it went; contents are copies."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, str] = {}
        self.changed: dict[str, Any] = {}
        self.outputs: list[tuple[str, Any]] = []
        self.buffers: dict[str, Any] = {}
        self.random = False
        self.error: str | None = None

    def document(self, function: str, held: dict[str, Any], store: _Store, keep: bool) -> dict[str, Any]:
        """The entry of the trace; without the states unless ``keep``."""
        import torch

        return {
            "function": function,
            "inputs": {p: store.put(t) for p, t in self.inputs.items()},
            "outputs": [
                {"path": p, "value": store.put(v)}
                if isinstance(v, torch.Tensor)
                else {"path": p, "constant": _constant(v)}
                for p, v in self.outputs
            ],
            "buffers": {n: store.put(t) for n, t in held.items()} if keep else None,
            "arguments": {p: store.put(t) for p, t in self.changed.items()} if keep else None,
            "random": self.random,
            "error": self.error,
        }


def _constant(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _call(entry: Recipe, call: Call, memo: dict[int, Any], states: _Watch) -> _Seen:
    import torch
    from torch.utils import _pytree as pytree

    seen = _Seen()
    args, kwargs = clone_arguments(call, memo)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    module = entry.module
    named = paths.argument_paths(spec, module.forward if module is not None else None)
    tensors: dict[str, Any] = {}
    for (path, _), leaf in zip(named, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            tensors[path] = leaf
            seen.inputs[path] = leaf.detach().clone()
        else:
            seen.constants[path] = _constant(leaf)
    watch = _Watch(tensors)
    state = randomness.states()
    try:
        with torch.no_grad():
            result = module(*args, **kwargs)  # type: ignore[misc]
    except Exception as error:
        seen.error = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        return seen
    seen.random = randomness.states() != state
    seen.changed = {p: tensors[p].detach().clone() for p in watch.written(tensors)}
    buffers = _buffers(module)
    seen.buffers = {n: buffers[n].detach().clone() for n in states.written(buffers)}
    paths.register_dataclasses(result)
    for path, value in pytree.tree_flatten_with_path(result)[0]:
        text = "".join(paths.key_text(k) for k in path)
        seen.outputs.append((text, value.detach().clone() if isinstance(value, torch.Tensor) else value))
    return seen
