"""``lit lit_tests`` runs every RUN line in processes of its own; ``pytest lit_tests`` runs them in one (conftest.py)."""

import os
import sys
from pathlib import Path

import lit.formats

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))
from lit_features import available_features  # noqa: E402

config.name = "fxc"  # noqa: F821
config.test_format = lit.formats.ShTest()  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["inputs"]  # noqa: F821
config.available_features.update(available_features())  # noqa: F821
config.test_source_root = str(here)  # noqa: F821
config.test_exec_root = str(here.parent / "build" / "lit")  # noqa: F821
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # noqa: F821
passes = sorted(here.glob("tools/inputs/*.py"))
config.substitutions.append(("%{passes}", " ".join(f"--load-pass={path}" for path in passes)))  # noqa: F821
