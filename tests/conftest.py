"""What every test shares: quiet TensorFlow, the same devices everywhere, the reference data."""

import os
from pathlib import Path

import pytest

# TensorFlow reads these once, when it is first imported, so they are set before any test module.
# setdefault: a developer may still choose, say, a GPU.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # tolerances are those of the CPU
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "2")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")

PROJECT_DIR = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_dir() -> Path:
    """The root of the checkout."""
    return PROJECT_DIR


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The reference data beside the checkout; the test is skipped where there is none."""
    path = PROJECT_DIR.parent / "shared" / "fixtures"
    if not path.is_dir():
        pytest.skip(f"reference data not found: {path}")
    return path
