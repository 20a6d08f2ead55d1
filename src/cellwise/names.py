"""What to say when a name is not known."""

import difflib
from collections.abc import Iterable


def nearest(kind: str, name: str, known: Iterable[str]) -> str:
    """`There is no KIND 'NAME'; …` with the names that look like it, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of: {', '.join(known)}."
    return f"There is no {kind} {name!r}; {hint}"
