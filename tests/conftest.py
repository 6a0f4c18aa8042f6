"""How much is tested: profiles of hypothesis, and shares of long lists of cases.

``--hypothesis-profile=long`` looks for new examples, ``default`` has the same ones every time. ``@pytest.mark.share(n)`` stands
at tests of which one case of ``n`` runs, always the same; all of them with ``--all-cases``.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest
import torch
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


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """What is computed is small, and threads that wait for each other cost more than they compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-cases", action="store_true", help="run all cases of tests of which a share runs otherwise")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all-cases"):
        return
    config.hook.pytest_deselected(items=[item for item in items if not _is_chosen(item)])
    items[:] = filter(_is_chosen, items)


def _is_chosen(item: pytest.Item) -> bool:
    share = item.get_closest_marker("share")
    return share is None or zlib.crc32(item.name.encode()) % share.args[0] == 0
