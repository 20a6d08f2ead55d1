"""automaton."""
