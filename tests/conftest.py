"""Profiles of hypothesis: ``default``, the same examples every time, and ``--hypothesis-profile=long`` to look for new ones."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)

for profile, examples in (("default", 50), ("long", 2000)):
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,
        derandomize=profile == "default",
    )
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled kernels go into a folder of this run, not into the user's."""
    os.environ["FXC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
