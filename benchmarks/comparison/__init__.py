"""The parts of `compare.py`: data, weights, worker processes, and the systems in `systems`.

Each system runs in its own process, some in an environment without elmo_tf. The modules that they
import from here therefore need only the standard library and NumPy.
"""
