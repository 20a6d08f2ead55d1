"""The cell: what its channels mean, the parameters of its rule, and many steps in a row."""
