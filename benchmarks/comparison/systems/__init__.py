"""One module for each system that is measured; each is started by `python -m` and serves."""
