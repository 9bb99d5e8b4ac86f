"""What `compare.py` is made of: data, weights, workers, and the systems under `systems`.

The systems run in processes of their own, some in an environment without elmo_tf, so what they
import from here needs nothing but the standard library and NumPy.
"""
