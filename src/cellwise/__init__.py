"""cellwise: neural cellular automata that reason."""
