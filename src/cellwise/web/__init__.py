"""The page on which people watch cells think: its files, a folder of them for any host, and a small server."""
