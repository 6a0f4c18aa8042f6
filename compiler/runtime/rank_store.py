"""What ranks tell each other when they compile, through the store of the process group: no collective runs for it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from torch import distributed

_HASH_BYTES = 32


def is_distributed() -> bool:
    """Whether this process is a rank of a process group."""
    return distributed.is_available() and distributed.is_initialized()


@dataclass(frozen=True)
class RankStore:
    """``store``, seen from ``rank``. ``seconds``: how long to wait for another rank."""

    store: Any
    rank: int
    seconds: float

    @classmethod
    def of_process(cls) -> RankStore | None:
        """That of the default process group; None where this process is no rank, or the only one, or where groups are fake."""
        if not is_distributed() or distributed.get_world_size() == 1 or distributed.get_backend() == "fake":
            return None
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

        store: Any = _get_default_store()
        return cls(PrefixStore("fxc", store), distributed.get_rank(), store.timeout.total_seconds())

    def index_of(self, text: str) -> int:
        """The index of ``text`` in the list of this rank, to which it is appended if it is not there."""
        count = self.store.add(f"{self.rank}/count", 0)
        for i in range(count):
            if self.store.get(f"{self.rank}/{i}") == text.encode():
                return i
        self.store.set(f"{self.rank}/{count}", text)
        self.store.add(f"{self.rank}/count", 1)
        return count

    def entry_of(self, rank: int, index: int) -> str | None:
        """The entry in the list of ``rank``, when it is there; None where it is not within the time."""
        found = self._waited(f"{rank}/{index}")
        return None if found is None else found.decode()

    def agree(self, index: int, ranks: Sequence[int], *, is_right: bool) -> bool:
        """Whether ``is_right`` holds for the entry at ``index`` on this rank and on all of ``ranks``, which call this, too."""
        self.store.set(f"{self.rank}/{index}/right", str(is_right))
        return is_right & all([self._waited(f"{rank}/{index}/right") == b"True" for rank in ranks])

    def claim(self, key: str) -> bool:
        """Whether this rank is the first one to claim ``key``."""
        return self.store.compare_set(f"plan/{key}/rank", "", str(self.rank)) == str(self.rank).encode()

    def publish(self, key: str, plan: bytes) -> None:
        """Give the plan of a claimed key to the other ranks; an empty one lets them compile."""
        self.store.set(f"plan/{key}", hashlib.sha256(plan).digest() + plan)

    def plan(self, key: str) -> bytes | None:
        """The plan that another rank publishes; None where there is none, or where its checksum is wrong."""
        found = self._waited(f"plan/{key}") or b""
        digest, plan = found[:_HASH_BYTES], found[_HASH_BYTES:]
        return plan if plan and hashlib.sha256(plan).digest() == digest else None

    def _waited(self, key: str) -> bytes | None:
        try:
            self.store.wait([key], timedelta(seconds=self.seconds))
        except (distributed.DistError, RuntimeError):  # the time is over, or the store has ended with its process
            return None
        return self.store.get(key)
