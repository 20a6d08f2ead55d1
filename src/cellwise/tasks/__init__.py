"""Many tasks by one automaton: learning from pairs of grids, a task at test time, and guessing often."""
