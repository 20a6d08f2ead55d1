"""The terminal as every command sees it."""

import rich.console


class Console(rich.console.Console):
    """Rich's, but what happens when a reader leaves early is for `main` to say."""

    def on_broken_pipe(self) -> None:
        """Called while the BrokenPipeError is handled."""
        raise
