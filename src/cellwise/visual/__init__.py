"""Sudokus in pixels: drawn on the device, learnt through a pool of pictures that are being thought about."""
