"""Training: the pool, what disturbs it, the loss, one pure iteration, and the loop that survives."""
