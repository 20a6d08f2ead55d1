"""How fast the page thinks in a headless Chromium, and how large it is; writes a result file.

    python tools/bench_web.py --out results/web.json

Needs Chromium on the PATH. The Sudoku rule has random weights of the size of Sudoku-Extreme: a step costs the
same whatever the numbers are.
"""

import argparse
import gzip
import os
import platform
import statistics
import threading
from datetime import UTC, datetime
from pathlib import Path

from browser import Browser
from cellwise import environment
from cellwise.automaton import rule
from cellwise.benchmarks import BOARD_PRESETS
from cellwise.files import write_json
from cellwise.model import Model, load
from cellwise.web.pages import files
from cellwise.web.server import Server

RUNS, MILLISECONDS = 5, 2000
SCENES = {
    "maze of size 59": "#model=maze-ood&maze=59.perfect.1",
    "maze of size 201": "#model=maze-ood&maze=201.perfect.1",
    "9 x 9 Sudoku-Extreme rule, one trial": "#model=sudoku-extreme-rule",
}
MEASURE = f"""(async () => {{
  await cellwise.mind.ask("begin", {{board: cellwise.board, seed: 0, trials: 1}});
  await cellwise.mind.ask("run", {{count: 20, budget: 1e9, tireless: true}});
  const began = performance.now();
  await cellwise.mind.ask("run", {{count: 1e6, budget: {MILLISECONDS}, tireless: true}});
  const seconds = (performance.now() - began) / 1000;
  return ((await cellwise.mind.ask("frame", {{}})).steps - 20) / seconds;
}})()"""


def sudoku_rule() -> Model:
    """The rule of Sudoku-Extreme before training."""
    preset = BOARD_PRESETS["sudoku-extreme"]
    weights = rule.first_weights(preset.automaton.step, (9, 9), seed=0) | {"layout.tokens": preset.tokens}
    return Model("sudoku-extreme-rule", "sudoku", preset.automaton, weights, (9, 9), 0.8, preset.pace)


def measure(browser: Browser, address: str) -> list[dict]:
    """Steps a second of every scene on the CPU, several runs of each."""
    rows = []
    for scene, link in SCENES.items():
        tab = browser.page(still=True)
        tab.open(address + link)
        running = tab.js("cellwise.computeOn('cpu')")
        speeds = [tab.js(MEASURE) for _ in range(RUNS)]
        rows.append(
            {
                "scene": scene,
                "runs_on": running["device"],
                "steps_per_second": {
                    "median": round(statistics.median(speeds), 1),
                    "min": round(min(speeds), 1),
                    "max": round(max(speeds), 1),
                },
            }
        )
        print(rows[-1], flush=True)
        tab.close()
    return rows


def first_paint(browser: Browser, address: str) -> float:
    """Milliseconds until something is to be seen, the median of several visits."""
    times = []
    for _ in range(RUNS):
        tab = browser.page(still=True)
        tab.open(address)
        paint = "performance.getEntriesByName('first-contentful-paint')[0]"
        times.append(tab.wait(f"{paint} && {paint}.startTime"))
        tab.close()
    return round(statistics.median(times), 1)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/web.json"))
    out = parser.parse_args().out
    page = files([])
    server = Server(files([load("maze-ood"), sudoku_rule()]), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser()
    try:
        result = {
            "command": f"python tools/bench_web.py --out {out}",
            "date": datetime.now(UTC).date().isoformat(),
            "browser": browser.call("Browser.getVersion")["product"],
            "device": environment.device(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load_at_start": round(os.getloadavg()[0], 1),
            "page_bytes": sum(map(len, page.values())),
            "page_bytes_gzip": sum(len(gzip.compress(data, 9)) for data in page.values()),
            "first_paint_ms": first_paint(browser, server.address),
            "rows": measure(browser, server.address),
        }
    finally:
        browser.close()
        server.shutdown()
    write_json(out, result)


if __name__ == "__main__":
    main()
