"""Errors meant for a person: each message is one sentence that names the problem and the remedy.

Whoever raises one writes the whole sentence; the command line only prints it and exits with status 2.
"""


class CellwiseError(Exception):
    """Anything a user can put right. Never raised for a defect of our own."""


class PuzzleError(CellwiseError):
    """The board that was handed over cannot be what it claims to be."""


class DataError(CellwiseError):
    """A dataset is missing, incomplete or not what its name promises."""


class ModelError(CellwiseError):
    """A model folder cannot be trusted or read."""


class ConfigError(CellwiseError):
    """An unknown preset, field or value."""


class RunError(CellwiseError):
    """A training run cannot start, continue or be resumed."""


class NotYetError(CellwiseError):
    """Something else has to be made first, such as a model that does not come with the package."""


class FileError(CellwiseError):
    """The file system said no."""
