"""Models of DTensors on a mesh of fake ranks, in one process: programs, layouts, guards, saved plans, orders of collectives."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_module, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import fxc
from fxc.compilation.rank_order import Collective, check_order, collectives_of, difference
from fxc.errors import CaptureError, CollectiveError, InputError, PlanFileError
from fxc.program.process_groups import bind_groups
from fxc.runtime.rank_store import RankStore
from fxc.torch_compile import capture_joint

BOTH = [Replicate(), Replicate()]


@pytest.fixture(scope="module")
def mesh() -> Iterator[dist.DeviceMesh]:
    """A mesh of 2 x 2 ranks, seen from rank 1. Collectives of fake process groups leave their results as they are."""
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    yield dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()
    torch._dynamo.reset()


def tensor(mesh: dist.DeviceMesh, placements: list[Placement], *sizes: int) -> DTensor:
    return distribute_tensor(torch.randn(sizes), mesh, placements, src_data_rank=None)


def product(x: Tensor, weight: DTensor) -> Tensor:
    return torch.relu(x @ weight.redistribute(placements=BOTH))


def replicated(mesh: dist.DeviceMesh) -> nn.Module:
    def replicate(_: str, module: nn.Module, mesh: dist.DeviceMesh) -> None:
        for name, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(name, nn.Parameter(distribute_tensor(parameter.data, mesh, BOTH, src_data_rank=None)))

    return distribute_module(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)), mesh, replicate)


def test_joint_program_states_meshes_groups_and_layouts(mesh: dist.DeviceMesh) -> None:
    x, weight = tensor(mesh, [Shard(0), Replicate()], 8, 16), tensor(mesh, [Shard(0), Shard(1)], 16, 8).requires_grad_()
    text = str(capture_joint(product, (x, weight)))
    groups = dict(re.findall(r'dist.group @(\w+) "(\d+)" on @mesh\(\w+\)', text))
    assert 'dist.mesh @mesh "cpu" (dp = 2, tp = 2)' in text
    assert groups == {axis: mesh.get_group(axis).group_name for axis in ("tp", "dp")}
    layouts = {"%primals_3: tensor<4x16xf32>": "[shard<0>, replicate]", "%primals_1: tensor<8x4xf32>": "[shard<0>, shard<1>]"}
    for argument, layout in layouts.items():
        assert re.search(rf"{argument} {{[^}}]*dist.layout = #dist.layout<@mesh, {re.escape(layout)}>", text)
    assert f'reduce_scatter_tensor.default(%mm_1, "sum", 2, "{groups["dp"]}")' in text
    assert str(fxc.Program.parse(text)) == text


@pytest.mark.slow
def test_compiled_gradients_have_the_layouts_of_eager_mode(mesh: dist.DeviceMesh) -> None:
    x, weight = tensor(mesh, [Shard(0), Replicate()], 8, 16), tensor(mesh, [Shard(0), Shard(1)], 16, 8).requires_grad_()
    compiled = torch.compile(product, backend="fxc", fullgraph=True)
    for placements in ([Shard(0), Replicate()], [Replicate(), Replicate()], [Shard(0), Replicate()]):  # Dynamo guards on them
        given, found = x.redistribute(placements=placements), list[tuple[Placement, ...]]()
        for call in (product, compiled):
            weight.grad, result = None, call(given, weight)
            result.sum().backward()
            assert isinstance(weight.grad, DTensor) and isinstance(result, DTensor)
            found.append((*result.placements, *weight.grad.placements))
        assert found[0] == found[1]


@pytest.mark.slow
def test_a_dynamic_batch(mesh: dist.DeviceMesh) -> None:
    """Two graphs for all sizes: the first one, and any."""
    weight = tensor(mesh, [Shard(0), Shard(1)], 16, 8).requires_grad_()
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(product, backend="fxc", fullgraph=True)
    for rows in (8, 12, 16, 8):
        x, found = tensor(mesh, [Shard(0), Replicate()], rows, 16), list[list[Tensor]]()
        for call in (product, compiled):
            weight.grad, result = None, call(x, weight)
            result.square().sum().backward()
            assert isinstance(weight.grad, DTensor) and isinstance(result, DTensor)
            found.append([result.to_local(), weight.grad.to_local()])
        torch.testing.assert_close(*found)
    assert counters["stats"]["unique_graphs"] == 2


def test_compile_and_guards(mesh: dist.DeviceMesh) -> None:
    model, x = replicated(mesh), tensor(mesh, [Shard(0), Replicate()], 8, 16)
    compiled = fxc.compile(model, (x,))
    assert "dist.layout<@mesh, [shard<0>, replicate]>" in str(compiled.ir)
    for _ in range(2):
        result = compiled(x)
        assert isinstance(result, DTensor) and result.placements == x.placements
        torch.testing.assert_close(result.to_local(), model(x).to_local())
        with torch.no_grad():
            model[0].weight.mul_(2)  # the plan has the local tensors of the model
    other = dist.init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp"))
    for wrong in (x.redistribute(placements=BOTH), x.to_local(), tensor(other, [Shard(0), Replicate()], 8, 16)):
        expected = re.escape("but a DTensor of (Shard(dim=0), Replicate()) on DeviceMesh((dp=2, tp=2)")
        with pytest.raises(InputError, match=rf"input input is .*, {expected}.* is expected"):
            compiled(wrong)
    with pytest.raises(InputError, match=r"input input has shape \(8, 16\), but \(4, 16\) is expected"):
        compiled(tensor(mesh, [Shard(0), Replicate()], 16, 16))
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())
    with pytest.raises(InputError, match=r"'0\.weight' was replaced"):
        compiled(x)


@pytest.mark.slow
def test_compile_for_training(mesh: dist.DeviceMesh, tmp_path: Path) -> None:
    model, x = replicated(mesh), tensor(mesh, [Shard(0), Replicate()], 8, 16).requires_grad_()
    compiled = fxc.compile(model, (x,), training=True)
    found = list[list[Tensor | None]]()
    for call in (model, compiled):
        model.zero_grad()
        x.grad, result = None, call(x)
        result.square().sum().backward()
        found.append([result, x.grad, *(parameter.grad for parameter in model.parameters())])
    for eager, ours in zip(*found, strict=True):
        assert isinstance(eager, DTensor) and isinstance(ours, DTensor) and eager.placements == ours.placements
        torch.testing.assert_close(ours.to_local(), eager.to_local())
    assert "dist.layout<@mesh, [shard<0>, replicate]>" in str(compiled.ir)
    with pytest.raises(InputError, match="input input is no DTensor"):
        compiled(x.to_local())
    compiled.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "forward: kernel_0" in page and "backward: kernel_0" in page
    with pytest.raises(PlanFileError, match="training with DTensors"):
        compiled.plan.save(tmp_path / "plan")
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())
    with pytest.raises(InputError, match=r"'0\.weight' was replaced"):
        compiled(x)


def test_results_without_gradients_and_nestings(mesh: dist.DeviceMesh) -> None:
    x, weight = tensor(mesh, [Shard(0), Replicate()], 8, 16), tensor(mesh, [Shard(0), Shard(1)], 16, 8).requires_grad_()
    both = lambda x, weight: {"loss": product(x, weight).sum(), "local": x.to_local() * 2}  # noqa: E731
    result = fxc.compile(both, (x, weight), training=True)(x, weight)
    assert result["loss"].placements == both(x, weight)["loss"].placements and not result["local"].requires_grad
    result["loss"].backward()
    assert isinstance(weight.grad, DTensor) and weight.grad.placements == weight.placements


def test_numbers_in_a_step_are_those_of_the_example(mesh: dist.DeviceMesh) -> None:
    weight = tensor(mesh, BOTH, 4, 4).requires_grad_()
    compiled = fxc.compile(lambda weight, times=2, _="": weight * times, (weight, 2), training=True)
    torch.testing.assert_close(compiled(weight, 2).to_local(), weight.to_local() * 2)
    for given, message in (((weight, 3), "input times is 3, but 2 was baked in"), ((weight, 2, "x"), "2 positional inputs")):
        with pytest.raises(InputError, match=message):
            compiled(*given)


def test_what_compile_refuses(mesh: dist.DeviceMesh) -> None:
    x, model = tensor(mesh, [Shard(0), Replicate()], 8, 16), replicated(mesh)
    with pytest.raises(CaptureError, match="no result of the model requires a gradient"):
        fxc.compile(torch.relu, (x,), training=True)
    with pytest.raises(CaptureError, match="the model writes a tensor"):
        fxc.compile(lambda x: (x * 2).add_(1), (x.requires_grad_(),), training=True)
    with pytest.raises(CaptureError, match="static sizes, and one layout"):
        fxc.compile(model, (x,), options={"recompile": True})
    with pytest.raises(CaptureError, match="static sizes, and one layout"):
        fxc.compile(model, (x,), dynamic_shapes={"input": {0: "rows"}})
    with pytest.raises(CaptureError, match="calls a module that it does not take"):
        fxc.compile(lambda x: model(x), (x,))
    with pytest.raises(CaptureError, match=r"result of size \(7, 3\) have different sizes"):
        fxc.compile(torch.relu, (tensor(mesh, [Shard(0), Replicate()], 7, 3),))


def test_saved_plan_finds_its_groups_by_ranks(mesh: dist.DeviceMesh, tmp_path: Path) -> None:
    x, weight = tensor(mesh, [Shard(0), Replicate()], 8, 16), tensor(mesh, [Shard(0), Shard(1)], 16, 8)
    compiled = fxc.compile(lambda x, weight: {"y": product(x, weight), "local": x.to_local() * 2}, (x, weight))
    for path in (tmp_path / "plan", tmp_path / "plan.zip"):
        compiled.plan.save(path)
        for trust in (False, True):
            loaded = fxc.ExecutionPlan.load(path, trust_kernels=trust)
            result = loaded(x, weight)
            assert result["y"].placements == (Shard(0), Replicate()) and result["y"].device_mesh == mesh
            torch.testing.assert_close(result["local"], x.to_local() * 2)
            with pytest.raises(InputError, match="input x is no DTensor"):
                loaded(x.to_local(), weight)

    name = mesh.get_group("dp").group_name
    program = fxc.Program.parse(str(compiled.ir).replace(f'"{name}"', '"elsewhere"'))
    bind_groups(program.module)
    assert f'"{name}"' in str(program) and "elsewhere" not in str(program)
    program = fxc.Program.parse(str(compiled.ir).replace("(dp = 2, tp = 2)", "(dp = 2, tp = 2) ranks [1, 2, 0, 3]"))
    with pytest.raises(CollectiveError, match=r"no process group of the ranks \[1, [02]\]"):
        bind_groups(program.module)


def two(order: str = "sum", rows: int = 4) -> fxc.Program:
    return fxc.Program.parse(f"""
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "7" on @mesh(dp)
func.func private @layer(%x: tensor<{rows}xf32>) -> tensor<{rows}xf32> {{
  %r = torch._c10d_functional.all_reduce.default(%x, "{order}", "7") : (tensor<{rows}xf32>) -> tensor<{rows}xf32>
  func.return %r : tensor<{rows}xf32>
}}
func.func @main(%x: tensor<{rows}xf32>) -> tensor<{rows}xf32> {{
  %a = func.call @layer(%x) : (tensor<{rows}xf32>) -> tensor<{rows}xf32>
  %b = func.call @layer(%a) : (tensor<{rows}xf32>) -> tensor<{rows}xf32>
  fx.output(%b) : (tensor<{rows}xf32>) -> ()
}}""")


def test_order_of_collectives() -> None:
    store, sum = dist.HashStore(), [*collectives_of(two().module, 0)]
    assert len(sum) == 2 and all(each.ranks == [0, 1] for each in sum)
    ranks = [RankStore(store, rank, 1) for rank in range(2)]

    def check(*programs: fxc.Program, as_captured: bool = False) -> list[CollectiveError | None]:
        """What each rank finds; they compile at the same time."""
        with ThreadPoolExecutor() as pool:
            checked = lambda each, rank: check_order(each.module, rank, each.module, as_captured=as_captured)  # noqa: E731
            return [*pool.map(checked, programs, ranks)]

    with pytest.raises(CollectiveError, match="rank 1 compiles no collectives, for 1 s"):
        check(two())
    assert check(two(), two()) == [None, None]
    assert check(two()) == [None], "what all ranks have had is there, so no rank waits"
    found = check(two("avg"), two(rows=5))
    texts = [f"has all_reduce over mesh(dp) of tensor<{each}" for each in ("4xf32> avg", "5xf32> sum")]
    for rank, error in enumerate(found):
        assert f"rank {rank} {texts[rank]}, rank {1 - rank} {texts[1 - rank]}" in str(error)
    assert all(check(two("avg"), two(rows=5))), "the error stays"
    assert check(two("avg"), two("avg"), as_captured=True) == [None, None]


def test_a_rank_whose_passes_removed_all_collectives() -> None:
    """All ranks get an error at once, so all of them compile again."""
    ranks = [RankStore(dist.HashStore(), 0, 5)]
    ranks.append(RankStore(ranks[0].store, 1, 5))
    none = fxc.Program.parse("func.func @main() {\n  fx.output() : () -> ()\n}")
    with ThreadPoolExecutor() as pool:
        checked = pool.map(lambda each, rank: str(check_order(each.module, rank, two().module)), (two(), none), ranks)
    assert ["collective 0 differs between ranks" in text for text in checked] == [True, True]


def test_ranks_that_share_no_group_agree() -> None:
    """Ranks 0 and 1 differ, 1 and 2 do not, nor do 2 and 3: all of them get an error, so all compile again."""
    link = """
dist.group @pair{0} "{0}" ranks [{0}, {1}]
func.func private @f{0}(%x: tensor<4xf32>) {{
  %r = torch._c10d_functional.all_reduce.default(%x, "{2}", "{0}") : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}}"""

    def program(rank: int) -> fxc.Program:
        pairs = [pair for pair in (rank - 1, rank) if 0 <= pair < 3]
        calls = "".join(f"func.call @f{pair}(%x) : (tensor<4xf32>) -> ()\n" for pair in pairs)
        texts = "".join(link.format(pair, pair + 1, "sum" if rank else "avg") for pair in pairs)
        return fxc.Program.parse(f"{texts}\nfunc.func @main(%x: tensor<4xf32>) {{\n{calls}fx.output() : () -> ()\n}}")

    store = dist.HashStore()
    with ThreadPoolExecutor() as pool:
        modules = [program(rank).module for rank in range(4)]
        found = [*pool.map(lambda rank: str(check_order(modules[rank], RankStore(store, rank, 5), modules[rank])), range(4))]
    assert [text.partition("\n")[0] for text in found[2:]] == ["two other ranks have different collectives"] * 2
    assert ["collective 0 differs between ranks" in text for text in found] == [True, True, False, False]


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        ([((0, 3), (0, 3))], [((3, 0), (3, 0))], None),
        ([((0, 3), (0, 2))], [((3, 0), (3, 0))], "rank 1 sends 3, but rank 0 receives 2"),
        ([((0, 1), (0, 3))], [((3, 0), (3, 0))], "rank 0 sends 1, but rank 1 receives 3"),
        ([((0, 3), (0, 3))], [], "rank 1 has nothing more"),
    ],
)
def test_sizes_of_exchanges(mine: Sequence[Any], theirs: Sequence[Any], message: str | None) -> None:
    sequences = [[Collective("exchange", [0, 1], *sizes) for sizes in rank] for rank in (mine, theirs)]
    error = difference(*sequences, 0, 1)
    assert error is None if message is None else error is not None and message in str(error)


def test_plan_of_another_rank() -> None:
    store = dist.HashStore()
    first, second = (RankStore(store, rank, 1) for rank in range(2))
    assert first.claim("key") and not second.claim("key")
    first.publish("key", b"plan\0")
    assert second.plan("key") == b"plan\0"
    store.set("plan/key", b"0" * 40)
    assert second.plan("key") is None, "a wrong checksum"


def test_writes_beside_dtensors(mesh: dist.DeviceMesh) -> None:
    def step(x: DTensor, count: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        count.add_(1)
        return x * 2, count + offset

    compiled, x, count = torch.compile(step, backend="fxc", fullgraph=True), tensor(mesh, BOTH, 4, 4), torch.zeros(3)
    assert compiled(x, count, torch.ones(3))[1].tolist() == [2.0] * 3
    assert compiled(x, count, count)[1].tolist() == [4.0] * 3, "the inputs share memory"
