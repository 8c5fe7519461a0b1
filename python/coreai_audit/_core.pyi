"""The compiled part of the package."""

def main(argv: list[str]) -> int:
    """Run the command line ``argv`` (with the program's name first); returns the exit status."""

def worker() -> None:
    """Serve conversion requests on standard input until it closes."""
