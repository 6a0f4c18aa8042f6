"""How much is tested: profiles of hypothesis, and shares of the cases of a test.

``--hypothesis-profile=long`` looks for new examples; ``default`` has the same ones every time, and ``share``, which is loaded
without ``--cases=all``, fewer of them. ``@pytest.mark.share(n)`` stands at tests of which one case of ``n`` runs, always the
same, and none for ``share(0)``. ``--cases=few`` runs one case of six of what would run else, at least one of each test, and
none of those with ``@pytest.mark.slow``; ``--cases=all`` runs everything. There the kernels that tests make are proved to stay
inside of their buffers; ``@pytest.mark.not_proved`` stands at tests of whose kernels z3 cannot prove all.
"""

from __future__ import annotations

import gc
import os
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

FEW = 6
"""``--cases=few`` runs one case of this many."""

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)

for profile, examples in (("share", 20), ("default", 50), ("long", 2000)):
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,
        derandomize=profile != "long",
    )
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cases") != "all" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("share")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled kernels go into a folder of this run, not into the user's; passes run each time, and what fails is raised."""
    os.environ["FXC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["FXC_CACHE_PLANS"] = "0"
    os.environ["FXC_FALLBACK"] = "0"


@pytest.fixture(scope="session")
def _watch() -> Any:
    """One for all tests: a kernel is proved once."""
    from tests.access_proofs import Watch

    return Watch()


@pytest.fixture(autouse=True)
def _kernels_stay_inside(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--cases") != "all" or request.node.get_closest_marker("not_proved"):
        yield
        return
    with request.getfixturevalue("_watch").on() as found:
        yield
    assert not found, "\n".join(map(str, found))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """What is computed is small, and threads that wait for each other cost more than they compute; in child processes too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="session")
def _seeds_of_no_gpu() -> Iterator[None]:
    """``torch.manual_seed`` keeps a formatted stack for each kind of GPU that is not there yet, which takes a millisecond."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (torch.cuda, torch.xpu):
            if not kind.is_available():
                patch.setattr(kind, "manual_seed_all", lambda seed: None)
        yield


def pytest_collection_finish() -> None:
    """What was imported lives to the end: the collector need not look at it again, nor run as often as by default."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 5, 20)


def pytest_sessionfinish() -> None:
    """pytest collects five times at the end, which takes seconds for captures of models; the process ends soon."""
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", choices=["few", "some", "all"], default="some", help="how many cases of each test run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (amount := config.getoption("--cases")) == "all":
        return
    chosen = _chosen(items, FEW if amount == "few" else 1)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file run in one process; those of tests/models, which share captures, do as if they were one file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "tests/models" if file.startswith("tests/models/") else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def _chosen(items: list[pytest.Item], least: int) -> set[pytest.Item]:
    """One case of ``least``, or of as many as the mark ``share`` says, of each test, and at least one."""
    chosen, shared = set[pytest.Item](), defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        share = item.get_closest_marker("share")
        of = least if share is None else least * share.args[0]
        if of and not (least > 1 and item.get_closest_marker("slow")):
            shared[item.nodeid.partition("[")[0], of].append(item)
    for (_, of), cases in shared.items():
        cases.sort(key=lambda item: zlib.crc32(item.name.encode()) % of)
        chosen.update(cases[: -(-len(cases) // of)])
    return chosen
