"""The benchmarks: what can be trained (`PRESETS`) and what can be measured (`BENCHMARKS`), by name."""

from . import arc, maze_hard, maze_ood, sudoku_extreme, sudoku_ood, visual_sudoku
from .preset import Benchmark, PairPreset, PicturePreset, Preset, TaskBenchmark
from .visual_protocol import PICTURE_BENCHMARKS

BOARD_PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        maze_ood.MAZE_OOD,
        maze_ood.MAZE_OOD_RELEASED,
        maze_ood.MAZE_LAPTOP,
        maze_hard.MAZE_HARD,
        maze_hard.MAZE_HARD_BFS,
        maze_hard.MAZE_HARD_UNLIMITED,
        maze_hard.MAZE_HARD_RELEASED,
        sudoku_ood.SUDOKU_OOD,
        sudoku_ood.SUDOKU_OOD_RELEASED,
        sudoku_extreme.SUDOKU_EXTREME,
        sudoku_extreme.SUDOKU_EXTREME_20K,
        sudoku_extreme.SUDOKU_EXTREME_RELEASED,
    )
}
PAIR_PRESETS: dict[str, PairPreset] = {
    preset.name: preset for preset in (arc.ARC, arc.ARC_PAPER, arc.ARC_SMALL)
}
PICTURE_PRESETS: dict[str, PicturePreset] = {preset.name: preset for preset in visual_sudoku.PRESETS}
PRESETS: dict[str, Preset | PairPreset | PicturePreset] = {
    **BOARD_PRESETS,
    **PAIR_PRESETS,
    **PICTURE_PRESETS,
}

BENCHMARKS: dict[str, Benchmark] = {
    module.BENCHMARK.name: module.BENCHMARK for module in (maze_ood, maze_hard, sudoku_ood, sudoku_extreme)
}

TASK_BENCHMARKS: dict[str, TaskBenchmark] = {benchmark.name: benchmark for benchmark in arc.BENCHMARKS}
"""What is measured by learning tasks."""

__all__ = [
    "BENCHMARKS",
    "BOARD_PRESETS",
    "PAIR_PRESETS",
    "PICTURE_BENCHMARKS",
    "PICTURE_PRESETS",
    "PRESETS",
    "TASK_BENCHMARKS",
    "Benchmark",
    "PairPreset",
    "PicturePreset",
    "Preset",
    "TaskBenchmark",
]
