"""The runtime descriptor of a saved asset: what coreai-core itself says its functions take.

Run in a process of its own: on malformed bytes, and on assets of the oldest producer, coreai-core ends
the process.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any


def describe(path: str) -> str:
    """JSON ``{"functions": [{name, inputs, states, outputs}]}``; ports in descriptor order."""
    return json.dumps({"functions": asyncio.run(_functions(Path(path)))})


async def _functions(path: Path) -> list[dict[str, Any]]:
    from coreai.authoring import AIModelAsset

    found = []
    async with AIModelAsset.load(path).executable() as model:
        for name in model.function_names:
            function = model.load_function(name)
            if function is not None:
                found.append({"name": name, **_ports(function.desc)})
    return found


def _ports(desc: Any) -> dict[str, Any]:
    return {
        "inputs": [_port(n, desc.input_descriptor(n)) for n in desc.input_names],
        "states": [_port(n, desc.state_descriptor(n)) for n in desc.state_names],
        "outputs": [_port(n, desc.output_descriptor(n)) for n in desc.output_names],
    }


def _port(name: str, descriptor: Any) -> dict[str, Any]:
    dtype = getattr(descriptor, "dtype", None)
    shape = getattr(descriptor, "shape", None)
    return {
        "name": name,
        "dtype": None if dtype is None else str(dtype),
        # The descriptor reports a dynamic dimension as -1.
        "shape": None if shape is None else [None if d is None or d < 0 else int(d) for d in shape],
    }
