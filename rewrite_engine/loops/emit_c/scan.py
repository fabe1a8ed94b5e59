"""Scans in C: a loop around the calls of a step, in which pointers to what is carried move on."""

from __future__ import annotations

from collections.abc import Mapping

from rewrite_engine.loops.compute import Buffer, Scan, Slice
from rewrite_engine.loops.dtypes import numpy_dtype
from rewrite_engine.loops.emit_c.steps import carried_buffers


def places_within(scan: Scan, places: Mapping[str, str], tensors: Mapping[str, Buffer]) -> dict[str, str]:
    """Where the elements of a step and what is carried are, as C; `places` has the buffers and what is outside."""
    found: dict[str, str] = {}
    for piece in (*scan.sliced, *scan.stacked):
        whole = found.get(piece.whole) or places[piece.whole]
        found[piece.part] = f"({whole}) + {_step(scan, piece)} * {_bytes(tensors[piece.part])}"
    for carry in scan.carried:
        found[carry.now] = f"now_{carry.now}"
    for name, (even, odd) in carried_buffers(scan).items():
        found[name] = f"({scan.step.name} & 1 ? {places[odd]} : {places[even]})"
    return found


def begin_lines(scan: Scan, places: Mapping[str, str]) -> list[str]:
    """The head of the loop; the names in it are the tensors' own."""
    step = scan.step.name
    pointers = [f"char *now_{carry.now} = (char *)({places[carry.initial]});" for carry in scan.carried]
    stop = [f"if (!*(const uint8_t *){places[scan.carried[0].now]}) break;"] if scan.conditional else []
    return ["{", *pointers, f"for (int64_t {step} = 0; {step} < INT64_C({scan.count}); {step}++) {{", *stop]


def end_lines(scan: Scan, places: Mapping[str, str], tensors: Mapping[str, Buffer]) -> list[str]:
    """Its tail: pointers move on, and after the last step what is carried goes where it is wanted."""
    following = [f"now_{carry.now} = (char *)({places[carry.following]});" for carry in scan.carried]
    finals = [
        f"memcpy((char *)({places[carry.final]}), now_{carry.now}, {_bytes(tensors[carry.now])});"
        for carry in scan.carried
    ]
    return [*following, "}", *finals, "}"]


def _step(scan: Scan, piece: Slice) -> str:
    return f"({scan.count - 1} - {scan.step.name})" if piece.backwards else scan.step.name


def _bytes(buffer: Buffer) -> int:
    return buffer.size * numpy_dtype(buffer.dtype).itemsize
