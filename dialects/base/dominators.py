"""Dominators of the blocks of a region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block


def dominator_tree(blocks: Sequence[Block]) -> dict[Block, list[Block]]:
    """Block -> the blocks it immediately dominates, for reachable blocks (Cooper, Harvey and Kennedy)."""
    order = list(_postorder(blocks[0]))
    number = {block: index for index, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(block)
    parent: dict[Block, Block] = {blocks[0]: blocks[0]}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [pred for pred in predecessors[block] if pred in parent]
            nearest = known[0]
            for other in known[1:]:
                while nearest is not other:
                    if number[nearest] < number[other]:
                        nearest = parent[nearest]
                    else:
                        other = parent[other]
            if parent.get(block) is not nearest:
                parent[block] = nearest
                changed = True
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in reversed(order[:-1]):
        children[parent[block]].append(block)
    return children


def _postorder(entry: Block) -> Iterator[Block]:
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(_successors(successor))))
                break
        else:
            stack.pop()
            yield block


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return () if last is None else tuple(last.successors)
