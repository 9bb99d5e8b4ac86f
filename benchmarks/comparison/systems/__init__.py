"""One module for each measured system; `python -m` starts it as a worker."""
