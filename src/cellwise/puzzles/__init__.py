"""Puzzles: what a maze and a Sudoku are, without any automaton.

The most used names are here; the modules hold the rest.
"""

from .board import Boards
from .maze_generator import generate as generate_mazes
from .maze_path import judge as judge_mazes
from .maze_picture import read_picture as read_maze_picture
from .maze_text import parse as parse_maze
from .maze_text import to_text as maze_to_text
from .sudoku import is_solution as is_sudoku_solution
from .sudoku import parse as parse_sudoku
from .sudoku import to_text as sudoku_to_text
from .sudoku_generator import generate_easy as generate_sudokus
from .sudoku_solver import solve as solve_sudoku

__all__ = [
    "Boards",
    "generate_mazes",
    "generate_sudokus",
    "is_sudoku_solution",
    "judge_mazes",
    "maze_to_text",
    "parse_maze",
    "parse_sudoku",
    "read_maze_picture",
    "solve_sudoku",
    "sudoku_to_text",
]
