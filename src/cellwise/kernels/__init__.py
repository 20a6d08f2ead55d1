"""One step of an automaton on plain arrays: the definition, faster paths, and the choice between them."""
