"""The exporter. In a checkout its modules are in the folder `export/` beside `elmo_tf/`.

A wheel stores them here, in place of this file, and so takes no second name at the top of a user's
environment, where a module of the user's own may be called `export`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers don't follow `__path__`
    from export import model_card as model_card
    from export import saved_model as saved_model

__path__ = [str(Path(__file__).resolve().parents[2] / "export")]
