"""Test-time compute: many trajectories, and the choice among them."""
