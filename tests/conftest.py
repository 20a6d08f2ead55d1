"""What every test runs under: strict JAX, shapes and types checked at every call, no network, no windows."""

import ipaddress
import os
import socket
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_default_matmul_precision", "highest")
jax.config.update("jax_enable_compilation_cache", False)

# Stays for the whole session, so that modules imported late are checked too.
install_import_hook("cellwise", "beartype.beartype")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with the benchmark data, which is not part of the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the benchmark data (../shared/data beside the repository) is not here")
    return SHARED_DATA


@pytest.fixture(scope="session")
def arc_tasks():
    """The tasks of a split of ARC-AGI-1, if the dataset store of this machine has them."""
    from cellwise.errors import DataError
    from cellwise.puzzles import store

    def tasks(split):
        try:
            return store.load_tasks("arc-agi-1", split)
        except DataError as error:
            pytest.skip(str(error))

    return tasks


@pytest.fixture(scope="session")
def chromium():
    """A real browser, closed in the end."""
    import page

    if page.browser.find() is None:
        pytest.skip("there is no Chromium here (apt install chromium)")
    chromium = page.browser.Browser()
    yield chromium
    chromium.close()


@pytest.fixture(scope="session")
def address():
    """Where the page is served with the mazes that come with the package and a model of Sudokus."""
    import page
    from cellwise.model import load

    with page.served([load("maze-ood"), page.fives()]) as address:
        yield address


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Lets tests reach their own servers and nothing else."""
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family != socket.AF_UNIX and not _is_this_machine(address[0]):
            raise AssertionError(f"a test tried to reach {address[0]}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
