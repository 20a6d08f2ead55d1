"""Filling dead ends: the algorithm that solves a maze without loops, and what it leaves of one with loops."""

import numpy as np
from jaxtyping import Bool, UInt8

from .maze import START, free_cells
from .maze_path import count_neighbours


def fill_dead_ends(grids: UInt8[np.ndarray, "n h w"]) -> Bool[np.ndarray, "n h w"]:
    """The cells that are left when free cells with at most one free neighbour are closed again and again.

    Endpoints always stay. In a maze without loops that leaves the way from one to the other and nothing else;
    loops stay, and so does what leads from one to the next.
    """
    ends, left = grids >= START, np.pad(free_cells(grids), ((0, 0), (1, 1), (1, 1)))
    inside = left[:, 1:-1, 1:-1]
    ways = np.pad(count_neighbours(inside), ((0, 0), (1, 1), (1, 1)))
    stays = np.pad(ends, ((0, 0), (1, 1), (1, 1)))
    _, height, width = left.shape
    around = (-width, -1, 1, width)
    flat, ways, stays = (array.reshape(len(grids), height * width) for array in (left, ways, stays))
    for maze in range(len(grids)):
        # Plain bytes: one cell at a time, each closed cell may make the next a dead end.
        open_cells, count, kept = bytearray(flat[maze]), bytearray(ways[maze]), bytes(stays[maze])
        tips = np.flatnonzero(flat[maze] & (ways[maze] <= 1) & ~stays[maze]).tolist()
        while tips:
            cell = tips.pop()
            open_cells[cell] = False
            for step in around:
                there = cell + step
                if open_cells[there]:
                    count[there] -= 1
                    if count[there] == 1 and not kept[there]:
                        tips.append(there)
        flat[maze] = np.frombuffer(open_cells, bool)
    return flat.reshape(left.shape)[:, 1:-1, 1:-1].copy()


def count_loops(grids: UInt8[np.ndarray, "n h w"]) -> np.ndarray:
    """How many doors one could close in each maze, one after the other, with every free cell still in reach.

    All free cells of a maze must hang together, as they do in generated ones.
    """
    free = free_cells(grids)
    edges = (free[:, 1:] & free[:, :-1]).sum((1, 2)) + (free[:, :, 1:] & free[:, :, :-1]).sum((1, 2))
    return edges - free.sum((1, 2)) + 1
