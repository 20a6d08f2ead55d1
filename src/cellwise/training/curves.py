"""TensorBoard event files of a run, for those who have it."""

from pathlib import Path
from typing import Any

from ..errors import ConfigError


class Curves:
    """Event files in `folder`; what an earlier process wrote after iteration `step` no longer counts."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer = summary_writer()(str(folder), purge_step=step + 1)

    def add(self, record: dict[str, Any]) -> None:
        """Every number of a record becomes a point."""
        room = record.get("check", "training")
        for name, value in record.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(f"{room}/{name}", value, record["step"])

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def summary_writer() -> Any:
    """The class that writes event files, or an error that says how to get it."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError(
            'TensorBoard files need the package tensorboardX; run pip install "cellwise[tensorboard]".'
        ) from None
    return SummaryWriter
