"""Runs a program in NumPy: each compute over a grid of its iterators, cut into boxes, contractions as matrix products.

In: the arrays of the program's inputs. Out: its outputs, written into given arrays that are never read.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from rewrite_engine.diagnostics import RewriteError
from rewrite_engine.loops.arithmetic import COMBINE_UFUNCS, Array, convert
from rewrite_engine.loops.boxes import flips
from rewrite_engine.loops.compute import Compute, Host, Program, Scan, Slice, Statement
from rewrite_engine.loops.contraction import contraction, is_windowed, multiply
from rewrite_engine.loops.dtypes import INDEX, identity, numpy_dtype
from rewrite_engine.loops.expr import Expr, accumulator, loads, postorder
from rewrite_engine.loops.grid import Grid, Sources, padded_load, strided
from rewrite_engine.loops.host import HOST_OPERATORS
from rewrite_engine.loops.index import subtract, terms

BLOCK = 1 << 16  # elements of a box that is evaluated node by node: temporaries stay in the cache
LARGEST = 1 << 23  # elements of a gathered operand or of a reduced box
MOST_TAPS = 256  # points of a window that is accumulated one after the other
LEAST_TAPPED = 1 << 12  # elements of a box that make it worth it
MOST_CUTS = 64  # boxes that conditions may cut a compute into

Ranges = dict[Expr, tuple[int, int]]


def run(program: Program, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Computes `outputs` from `inputs`, both in the program's order and of its shapes and types.

    Raises RewriteError when an array does not have the shape or type that the program states, `OutOfRange` for data
    that a check refuses.
    """
    for role, names, arrays in (("input", program.inputs, inputs), ("output", program.outputs, outputs)):
        _check(program, role, names, arrays)
    env = {name: np.asarray(array, order="C") for name, array in zip(program.inputs, inputs, strict=True)}
    env.update((name, np.asarray(array, order="C")) for name, array in program.constants.items())
    _run(program, program.statements, last_uses(program), env, dict(zip(program.outputs, outputs, strict=True)))


def _run(
    program: Program,
    statements: Sequence[Statement],
    uses: Sequence[tuple[str, ...]],
    env: dict[str, Array],
    results: Mapping[str, Array],
) -> None:
    """The statements in order; what is in `results` goes there, and `uses` says what each one uses last."""
    checked = program.checked
    for statement, dead in zip(statements, uses, strict=True):
        for name in statement.outputs:
            given = results.get(name)
            buffer = program.tensors[name]
            usable = given is not None and given.flags.c_contiguous
            env[name] = given if usable and given is not None else np.empty(buffer.shape, numpy_dtype(buffer.dtype))
        if isinstance(statement, Compute):
            run_compute(statement, env, env[statement.out])
            if statement.out in checked:
                checked[statement.out].verify(int(env[statement.out]))
        elif isinstance(statement, Scan):
            _scan(program, statement, env)
        else:
            _run_host(statement, env)
        for name in statement.outputs:
            if name in results and results[name] is not env[name]:
                results[name][...] = env[name]
        for name in dead:
            del env[name]


def _scan(program: Program, scan: Scan, env: Mapping[str, Array]) -> None:
    """Step after step; each makes new arrays of what it carries, or writes them where they are stacked."""
    uses = last_uses_within(scan)
    carried = {carry.now: env[carry.initial] for carry in scan.carried}
    for step in range(scan.count):
        if scan.conditional and not carried[scan.carried[0].now]:
            break
        here = {**env, **carried}
        for piece in scan.sliced:
            here[piece.part] = _element(env, piece, step)
        _run(program, scan.statements, uses, here, {piece.part: _element(env, piece, step) for piece in scan.stacked})
        carried = {carry.now: here[carry.following] for carry in scan.carried}
    for carry in scan.carried:
        env[carry.final][...] = carried[carry.now]


def _element(env: Mapping[str, Array], piece: Slice, step: int) -> Array:
    """The view of a step's element (with an ellipsis: of a vector too)."""
    whole = env[piece.whole]
    return whole[(len(whole) - 1 - step if piece.backwards else step), ...]


def last_uses(program: Program) -> list[tuple[str, ...]]:
    """For each statement, the temporaries that no later statement reads (its own outputs included, when none does)."""
    kept = {*program.inputs, *program.outputs, *program.constants}
    return _last_uses(program.statements, kept)


def last_uses_within(scan: Scan) -> list[tuple[str, ...]]:
    """As `last_uses`, for the statements of a step: what they compute and the step does not hand on."""
    own = {name for statement in scan.statements for name in statement.outputs}
    read = {name for statement in scan.statements for name in statement.reads}
    return _last_uses(scan.statements, (read - own) | {*scan.wanted})


def _last_uses(statements: Sequence[Statement], kept: Collection[str]) -> list[tuple[str, ...]]:
    dead: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for statement in reversed(statements):
        names = [name for name in dict.fromkeys((*statement.outputs, *statement.reads)) if name not in kept]
        dead.append(tuple(name for name in names if name not in seen))
        seen.update(names)
    return dead[::-1]


def workspace_bytes(program: Program) -> int:
    """The peak of bytes of temporaries live at once, each rounded up to 64; inputs, outputs and constants excluded."""
    sizes = {
        name: -(-buffer.size * numpy_dtype(buffer.dtype).itemsize // 64) * 64
        for name, buffer in program.tensors.items()
    }
    return _peak(program.statements, last_uses(program), sizes, {*program.outputs})


def _peak(
    statements: Sequence[Statement], uses: Sequence[tuple[str, ...]], sizes: Mapping[str, int], given: Collection[str]
) -> int:
    """The peak of a sequence of statements; that of a scan has what goes from step to step twice."""
    live = peak = 0
    for statement, dead in zip(statements, uses, strict=True):
        live += sum(sizes[name] for name in statement.outputs if name not in given)
        inner = 0
        if isinstance(statement, Scan):
            parts = {piece.part for piece in statement.stacked}
            inner = _peak(statement.statements, last_uses_within(statement), sizes, parts)
            inner += sum(sizes[carry.now] for carry in statement.carried)
        peak = max(peak, live + inner)
        live -= sum(sizes[name] for name in dead)
    return peak


def run_compute(compute: Compute, arrays: Mapping[str, Array], out: Array) -> None:
    """One compute, into the contiguous array `out`."""
    if compute.is_scatter:
        _scatter(compute, arrays, out)
        return
    axes = [it.expr for it in compute.parallel if it.extent != 1]
    if any(axis.extent == 0 for axis in axes):
        return
    sources = Sources(arrays)
    for ranges in _boxes(compute, axes, arrays):
        value = _reduce(compute, ranges, sources)
        if compute.post is not None:
            total = np.asarray(value)
            value = Grid(axes, ranges, sources).evaluate(compute.post, {accumulator(compute.body.dtype): total})
        _target(compute, axes, ranges, out)[...] = value


def _check(program: Program, role: str, names: Sequence[str], arrays: Sequence[Array]) -> None:
    if len(names) != len(arrays):
        raise RewriteError(f"the kernel has {len(names)} {role}s, found {len(arrays)}")
    for name, array in zip(names, arrays, strict=True):
        shape, dtype = program.tensors[name]
        if array.shape != shape or array.dtype != numpy_dtype(dtype):
            found = f"{array.dtype.name}{list(array.shape)}"
            raise RewriteError(f"{role} {name} of the kernel: expected {dtype}{list(shape)}, found {found}")


def _run_host(statement: Host, env: Mapping[str, Array]) -> None:
    values = HOST_OPERATORS[statement.name]([env[name] for name in statement.inputs], statement.attributes)
    for name, value in zip(statement.outputs, values, strict=True):
        if value.shape != env[name].shape:  # what is of another shape must not be spread either
            operator = statement.attributes.get("operator", statement.name)
            raise RewriteError(
                f"operator {operator}: its result has the shape {list(value.shape)}, and the model states "
                f"{list(env[name].shape)}; mend the shape that the model states, or leave it out"
            )
        env[name][...] = value


# ---------------------------------------------------------------- boxes


def _boxes(compute: Compute, axes: Sequence[Expr], arrays: Mapping[str, Array]) -> Iterator[Ranges]:
    """Boxes of the parallel iterators that cover the compute: cut where a condition flips, then to the size limit."""
    cuts = _cuts(compute, tuple((name, arrays[name].shape) for name in compute.reads))
    segments = [list(itertools.pairwise((0, *cuts.get(axis, ()), axis.extent))) for axis in axes]
    if math.prod(map(len, segments)) > MOST_CUTS:
        segments = [[(0, axis.extent)] for axis in axes]
    for chosen in itertools.product(*segments):
        yield from _blocks(compute, dict(zip(axes, chosen, strict=True)))


def _blocks(compute: Compute, ranges: Ranges) -> Iterator[Ranges]:
    pending = [ranges]
    while pending:
        box = pending.pop()
        axis = _axis_to_halve(compute, box)
        if axis is None:
            yield box
        else:
            start, stop = box[axis]
            middle = (start + stop) // 2
            pending += [{**box, axis: (middle, stop)}, {**box, axis: (start, middle)}]


def _axis_to_halve(compute: Compute, box: Ranges) -> Expr | None:
    """The axis along which a box is too large, or None: the outermost one that is not already 1."""
    size = math.prod(stop - start for start, stop in box.values())
    candidates = [axis for axis, (start, stop) in box.items() if stop - start > 1]
    spec = contraction(compute)
    points = math.prod(it.extent for it in compute.reduction)
    if spec is not None and not _by_taps(compute, size):
        if not is_windowed(compute):
            return None
        for factor in (spec.left, spec.right):
            own = [axis for axis in candidates if axis in factor.variables]
            gathered = points * math.prod(box[axis][1] - box[axis][0] for axis in own)
            if gathered > LARGEST and own:
                return max(own, key=lambda axis: box[axis][1] - box[axis][0])
        return None
    limit = BLOCK if compute.combine is None or _by_taps(compute, size) else max(LARGEST // 8 // max(points, 1), 1)
    return candidates[0] if size > limit and candidates else None


@functools.lru_cache(maxsize=1 << 12)
def _cuts(compute: Compute, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[Expr, tuple[int, ...]]:
    """Where conditions on one parallel iterator change, for selects between loads that are not padded loads."""
    shape_of = dict(shapes)
    axes = {it.expr for it in compute.parallel}
    found: dict[Expr, set[int]] = {}
    for node in postorder(compute.body, *(() if compute.post is None else (compute.post,))):
        if node.op != "select" or not loads(*node.args[1:]) or _is_padded(node, shape_of):
            continue
        for condition in postorder(node.args[0]):
            if condition.op not in ("lt", "le", "eq") or condition.args[0].dtype != INDEX:
                continue
            constant, coefficients = terms(subtract(condition.args[1], condition.args[0]))
            if len(coefficients) == 1:
                ((axis, k),) = coefficients.items()
                if axis in axes:
                    found.setdefault(axis, set()).update(flips(condition.op, constant, k))
    return {axis: tuple(sorted(at for at in points if 0 < at < axis.extent)) for axis, points in found.items()}


def _is_padded(node: Expr, shape_of: Mapping[str, tuple[int, ...]]) -> bool:
    value = node.args[1]
    source = value.args[0] if value.op == "cast" else value
    return source.op == "load" and padded_load(node, (shape_of[source.name],)) is not None


# ---------------------------------------------------------------- one box


def _by_taps(compute: Compute, size: int) -> bool:
    """Whether a window is accumulated point by point: overlapping reads of which no matrix product can be made."""
    points = math.prod(it.extent for it in compute.reduction)
    if compute.combine is None or not 1 < points <= MOST_TAPS or size < LEAST_TAPPED or not is_windowed(compute):
        return False
    spec = contraction(compute)
    return spec is None or not spec.rows or not spec.columns


def _reduce(compute: Compute, ranges: Ranges, sources: Sources) -> Array:
    """The body over a box of parallel iterators, reduced; it broadcasts to the box."""
    axes = list(ranges)
    if compute.combine is None:
        return Grid(axes, ranges, sources).evaluate(compute.body)
    dtype = numpy_dtype(compute.body.dtype)
    reduction = [it.expr for it in compute.reduction if it.extent != 1]
    if any(it.extent == 0 for it in compute.reduction):
        return np.full((1,) * len(axes), identity(compute.combine, compute.body.dtype), dtype)
    if not reduction:
        return Grid(axes, ranges, sources).evaluate(compute.body)
    shape = [stop - start for start, stop in ranges.values()]
    if _by_taps(compute, math.prod(shape)):
        return _accumulate(compute, ranges, reduction, sources)
    spec = contraction(compute)
    if spec is not None:
        box = {**ranges, **{axis: (0, axis.extent) for axis in reduction}}
        grid = Grid(list(box), box, sources)
        left, right = grid.evaluate_all((spec.left, spec.right))
        return multiply(spec, _along(left, box), _along(right, box), list(box), [b - a for a, b in box.values()])
    total: Array | None = None
    for part in _reduction_blocks(reduction, math.prod(shape)):
        box = {**ranges, **part}
        extents = [stop - start for start, stop in box.values()]
        value = np.broadcast_to(Grid(list(box), box, sources).evaluate(compute.body), extents)
        inner = tuple(range(len(axes), len(box)))
        with np.errstate(all="ignore"):
            reduced = COMBINE_UFUNCS[compute.combine].reduce(value, axis=inner, dtype=dtype)
            total = reduced if total is None else COMBINE_UFUNCS[compute.combine](total, reduced)
    assert total is not None
    return np.asarray(total)


def _accumulate(compute: Compute, ranges: Ranges, reduction: Sequence[Expr], sources: Sources) -> Array:
    """The points of a window one after the other, each over the whole box."""
    assert compute.combine is not None
    combine = COMBINE_UFUNCS[compute.combine]
    axes, total = list(ranges), None
    shape = [stop - start for start, stop in ranges.values()]
    for point in itertools.product(*(range(axis.extent) for axis in reduction)):
        box = {**ranges, **{axis: (at, at + 1) for axis, at in zip(reduction, point, strict=True)}}
        value = _along(Grid(list(box), box, sources).evaluate(compute.body), box)
        value = value.reshape(value.shape[: len(axes)])
        with np.errstate(all="ignore"):
            if total is None:
                total = np.array(np.broadcast_to(value, shape))
            else:
                combine(total, value, out=total)
    assert total is not None
    return total


def _reduction_blocks(reduction: Sequence[Expr], parallel_size: int) -> Iterator[Ranges]:
    """Boxes of the reduction iterators such that a box with the parallel ones stays within the limit."""
    pending: list[Ranges] = [{axis: (0, axis.extent) for axis in reduction}]
    while pending:
        box = pending.pop()
        size = parallel_size * math.prod(stop - start for start, stop in box.values())
        axis = next((axis for axis, (start, stop) in box.items() if stop - start > 1), None)
        if size <= LARGEST or axis is None:
            yield box
        else:
            start, stop = box[axis]
            middle = (start + stop) // 2
            pending += [{**box, axis: (middle, stop)}, {**box, axis: (start, middle)}]


def _along(value: Array, box: Ranges) -> Array:
    """The value with every axis of the box, of extent 1 where it does not depend on it."""
    return value.reshape((1,) * (len(box) - value.ndim) + value.shape)


def _target(compute: Compute, axes: Sequence[Expr], ranges: Ranges, out: Array) -> Array:
    """The view of `out` over the box that the compute's index describes."""
    strides, offset = dict.fromkeys(axes, 0), 0
    for index, step in zip(compute.index, out.strides, strict=True):
        constant, coefficients = terms(index)
        offset += constant * step
        for axis, k in coefficients.items():
            strides[axis] += k * step
            offset += k * step * ranges[axis][0]
    return strided(out, [b - a for a, b in ranges.values()], [strides[axis] for axis in axes], offset)


def _scatter(compute: Compute, arrays: Mapping[str, Array], out: Array) -> None:
    assert compute.init is not None
    out[...] = arrays[compute.init]
    axes = [it.expr for it in compute.parallel if it.extent != 1]
    if any(it.extent == 0 for it in compute.iters) or not out.size:
        return
    ranges: Ranges = {axis: (0, axis.extent) for axis in axes}
    values = Grid(axes, ranges, Sources(arrays)).evaluate_all((*compute.index, compute.body))
    shape = [axis.extent for axis in axes]
    *where, value = (np.broadcast_to(array, shape) for array in values)
    at = tuple(np.clip(index, 0, n - 1) for index, n in zip(where, out.shape, strict=True))
    if compute.combine == "set":
        out[at] = value
    else:
        assert compute.combine is not None
        with np.errstate(all="ignore"):
            COMBINE_UFUNCS[compute.combine].at(out, at, convert(np.asarray(value), compute.body.dtype))
