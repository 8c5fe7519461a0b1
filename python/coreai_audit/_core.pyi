"""The compiled part of the package."""

class AuditError(ValueError):
    """A file that cannot be read; the message says where, what was expected and what to do."""

class RunError(AuditError):
    """A call that cannot be made; the message names the function and the value or op."""

#: name, dtype, extents.
Port = tuple[str, str, list[int | None]]
#: name, dtype, shape, bytes; those of a state are written to.
Given = tuple[str, str, list[int], memoryview]

class Model:
    """An asset ready to run."""

    def __new__(cls, path: str, threads: int) -> Model:
        """Read and prepare the asset at ``path``."""

    def function_names(self) -> list[str]:
        """The functions, in file order."""

    def ports(self, function: str) -> tuple[list[Port], list[Port], list[Port]]:
        """Inputs, states and outputs, in descriptor order."""

    def run(
        self,
        function: str,
        inputs: list[Given],
        states: list[Given],
        views: list[tuple[str, list[int]]],
    ) -> list[tuple[str, str, list[int], bytes]]:
        """One call; states are updated in the memory that is given for them, unless an output turns out
        not to have the shape that ``views`` has for it."""

def main(argv: list[str]) -> int:
    """Run the command line ``argv`` (with the program's name first); returns the exit status."""

def worker() -> None:
    """Serve conversion requests on standard input until it closes."""

def upgrade_cell(cell: str, given: bytes | None, records: bool) -> tuple[str, bytes | None]:
    """Convert one cell of an upgrade's matrix on this machine; JSON in and out, and the reference."""

def inspect_json(path: str) -> str:
    """The document of ``coreai-audit inspect --format json`` for one asset."""

def contract_json(path: str) -> str:
    """The contract in an asset, contract file or snapshot, as JSON."""

def diff_json(old: str, new: str) -> str:
    """The changes between two contracts, as a JSON list."""
