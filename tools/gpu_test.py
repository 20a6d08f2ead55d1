"""Runs the tests that need a GPU, and keeps what they said.

    python tools/gpu_test.py                        # writes results/gpu-test.json

Every kernel is compared with the oracle and with the readable step on the device that runs it. The same
tests run on a CPU in `make test`, with the kernels emulated.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cellwise import environment
from cellwise.files import write_text

ROOT = Path(__file__).resolve().parents[1]


class Outcomes:
    """Which tests passed and which did not."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has failed if any of its phases has."""
        if report.when == "call" or report.outcome != "passed":
            self.of[report.nodeid] = report.outcome


def main() -> int:
    """Runs the tests and returns pytest's exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "gpu-test.json")
    out = parser.parse_args().out
    outcomes = Outcomes()
    status = pytest.main(["-q", "-m", "gpu", "-W", "default", str(ROOT / "tests")], plugins=[outcomes])
    document = {
        "command": "python tools/gpu_test.py",
        "date": datetime.now(UTC).date().isoformat(),
        "device": environment.device(),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "passed": sum(outcome == "passed" for outcome in outcomes.of.values()),
        "failed": sum(outcome == "failed" for outcome in outcomes.of.values()),
        "tests": outcomes.of,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, json.dumps(document, indent=1) + "\n")
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
