"""The page on which people watch cells think: its files, a folder of them, and a small server."""
