"""Memory of large results that is kept for the next: taken when nothing else knows it, and never before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fxc
from fxc.runtime.arena import Arenas
from fxc.runtime.memory_cache import CACHED_FROM, MemoryCache, memory_cache

SIZES, STRIDES, BYTES = (2, CACHED_FROM), (CACHED_FROM, 1), 8 * CACHED_FROM
HOST = {"target": "host"}


@pytest.fixture(autouse=True, scope="module")
def _collections_are_short() -> None:
    """The collections of these tests pass over what tests before have left."""
    gc.freeze()


def made(memory: MemoryCache) -> torch.Tensor:
    return memory.new(BYTES, SIZES, STRIDES, torch.float32)


def test_the_memory_of_a_dead_tensor_is_taken_again() -> None:
    memory = MemoryCache()
    first = made(memory)
    address = first.data_ptr()
    del first
    second = made(memory)
    assert second.data_ptr() == address
    assert memory.blocks == 1
    assert (second.shape, second.stride(), second.dtype) == (SIZES, STRIDES, torch.float32)
    assert second.untyped_storage().nbytes() == BYTES


def test_other_sizes_of_as_many_bytes_share() -> None:
    memory = MemoryCache()
    address = made(memory).data_ptr()
    other = memory.new(BYTES, (CACHED_FROM, 4), (1, CACHED_FROM), torch.int16)
    assert other.data_ptr() == address
    assert other.stride() == (1, CACHED_FROM)


def saved(x: torch.Tensor) -> Any:
    weight = torch.ones((), requires_grad=True)
    return (weight * x).sum().grad_fn.next_functions[0][0]  # type: ignore[union-attr]


HOLDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "the tensor": lambda x: x,
    "a view": lambda x: x[1, 5:7],
    "a detached tensor": lambda x: x.detach(),
    "an array": lambda x: x.numpy(),
    "a view of an array": lambda x: np.asarray(x)[0, :3],
    "a capsule": torch.utils.dlpack.to_dlpack,
    "a storage": lambda x: x.untyped_storage(),
    "a typed storage": lambda x: x.storage(),
    "a graph": saved,
    "a parameter": torch.nn.Parameter,
    "a tensor that took over its data": lambda x: torch.empty(0).set_(x),
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("holder", HOLDS)
def test_memory_that_something_holds_is_not_taken(holder: str) -> None:
    memory = MemoryCache()
    x = made(memory)
    address, held = x.data_ptr(), HOLDS[holder](x)
    del x
    gc.collect()
    others = [made(memory) for _ in range(3)]
    assert address not in [each.data_ptr() for each in others]
    assert len({each.data_ptr() for each in others}) == 3
    del held
    gc.collect()
    assert made(memory).data_ptr() == address


def test_what_was_resized_or_shared_with_processes_is_not_taken() -> None:
    memory = MemoryCache()
    larger, shared = made(memory), made(memory)
    larger.resize_(3, CACHED_FROM)
    shared.share_memory_()
    addresses = {larger.data_ptr(), shared.data_ptr()}
    del larger, shared
    found = [made(memory) for _ in range(3)]
    assert addresses.isdisjoint(each.data_ptr() for each in found)
    assert all(each.untyped_storage().nbytes() == BYTES for each in found)


def test_what_nothing_took_for_long_is_forgotten() -> None:
    memory = MemoryCache()
    held = [made(memory) for _ in range(3)]
    small = (CACHED_FROM, (CACHED_FROM,), (1,), torch.uint8)
    for _ in range(300):
        memory.new(*small)
    assert memory.blocks == 4  # three that are held, one that is taken again and again
    other = memory.new(2 * CACHED_FROM, (2 * CACHED_FROM,), (1,), torch.uint8)
    assert memory.blocks == 2
    assert len({each.data_ptr() for each in (*held, other)}) == 4


def test_threads_get_memory_of_their_own() -> None:
    memory, wrong = MemoryCache(), list[int]()

    def work(number: int) -> None:
        for step in range(50):
            x = memory.new(CACHED_FROM, (CACHED_FROM // 8,), (1,), torch.int64).fill_(number * 1000 + step)
            y = memory.new(CACHED_FROM, (CACHED_FROM // 8,), (1,), torch.int64).fill_(-1)
            if not bool((x == number * 1000 + step).all() and (y == -1).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memory.blocks <= 24  # of a block that a thread looks at, others do not know


def large_function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x) * 2 + 1, torch.bmm(x, y)


def test_results_of_compiled_functions_are_the_caller_s() -> None:
    x, y = torch.randn(1, 1024, 512), torch.randn(1, 512, 600)
    with torch.no_grad():
        compiled = fxc.compile(large_function, (x, y), options=HOST)
        assert compiled.plan.code.count("empty_kept(") == 2
        first = compiled(x, y)
        with torch.inference_mode():
            second = compiled(-x, y)
        third = compiled(x + 1, y)
        for found, inputs in ((first, (x, y)), (second, (-x, y)), (third, (x + 1, y))):
            for mine, theirs in zip(found, large_function(*inputs), strict=True):
                torch.testing.assert_close(mine, theirs)
        addresses = {each.data_ptr() for each in (*first, *second)}
        del first, second, found, mine, theirs
        again = compiled(x, y)
    assert addresses.issuperset(each.data_ptr() for each in again)
    torch.testing.assert_close(again, large_function(x, y))


def test_small_results_are_the_allocator_s() -> None:
    x, y = torch.randn(1, 8, 4), torch.randn(1, 4, 4)
    with torch.no_grad():
        assert "empty_kept(" not in fxc.compile(large_function, (x, y), options=HOST).plan.code


def test_memory_goes_with_the_last_program_or_when_asked() -> None:
    gc.collect()
    x, y = torch.randn(1, 1024, 512), torch.randn(1, 512, 600)
    with torch.no_grad():
        compiled = fxc.compile(large_function, (x, y), options=HOST)
        results = compiled(x, y)
        memory = memory_cache()
        assert memory.blocks >= 2
        fxc.release_memory()
        assert memory.blocks == 0
        torch.testing.assert_close(results, large_function(x, y))
        torch.testing.assert_close(compiled(x, y), results)
    assert memory.blocks >= 2


def test_idle_arenas_are_given_back_when_asked() -> None:
    arenas = Arenas(64, [])
    arena = arenas.take()
    arenas.give_back(arena)
    assert arenas.idle == 1
    fxc.release_memory()
    assert arenas.idle == 0


@pytest.mark.slow
def test_gradients_in_kept_memory_are_right_step_after_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512))
    x = torch.randn(600, 512)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    compiled = fxc.compile(torch.nn.Sequential(model, Loss()), (x,), training=True, options=HOST)
    kept = list[list[torch.Tensor]]()
    for run in (compiled, loss, compiled, loss):
        run(x).backward()
        kept.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        model.zero_grad()
    for mine, theirs in ((kept[0], kept[1]), (kept[2], kept[3]), (kept[0], kept[2])):
        torch.testing.assert_close(mine, theirs)
    memory = {gradient.data_ptr() for gradients in kept for gradient in gradients}
    assert len(memory) == sum(map(len, kept))


class Loss(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square().mean()
