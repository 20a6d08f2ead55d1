"""How fast it is: every way to run a rule, side by side in one run, as a result that can be kept."""
