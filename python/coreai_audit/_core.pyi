"""The compiled part of the package."""

class AuditError(ValueError):
    """A file that cannot be read; the message says where, what was expected and what to do."""

def main(argv: list[str]) -> int:
    """Run the command line ``argv`` (with the program's name first); returns the exit status."""

def worker() -> None:
    """Serve conversion requests on standard input until it closes."""

def inspect_json(path: str) -> str:
    """The document of ``coreai-audit inspect --format json`` for one asset."""

def contract_json(path: str) -> str:
    """The contract in an asset, contract file or snapshot, as JSON."""

def diff_json(old: str, new: str) -> str:
    """The changes between two contracts, as a JSON list."""
