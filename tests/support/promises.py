"""How a broken promise is told."""


class PromiseBroken(AssertionError):
    """The kernel did what it should not have done, or did not do what it should have."""

    def __init__(self, what: str, *evidence: object) -> None:
        super().__init__("\n  ".join([f"broken: {what}", *map(str, evidence)]))
        self.what = what


def promise(is_kept: bool, what: str, *evidence: object) -> None:
    """Raise unless the promise is kept."""
    if not is_kept:
        raise PromiseBroken(what, *evidence)
