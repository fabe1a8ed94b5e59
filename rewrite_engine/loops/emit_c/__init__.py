"""C for programs: `emit(program, symbol) -> CSource`; `loops.build_c.build(sources) -> Library` compiles and loads it.

    library = build([emit(compose(program), "conv1"), ...])
    kernel = library.kernel("conv1")       # kernel(inputs, outputs): the backend's `Kernel`
    kernel(inputs, outputs)
    run = library.sequence([("conv1", inputs, outputs), ...])      # many calls on fixed arrays, one call into C
    run()

`emit(..., constants=(1, 2))` names the inputs (by position) that are the same in every run; `lanes` is the vector width
to tune for (`build_c.machine_lanes()`), the code runs on any processor.

The exported functions of a kernel, returning 0, or -1 for positions outside of their axis, of which `re_failure` of
runtime/failure.h then says what they are; arrays are contiguous, in the program's order, memory is aligned
to 64 bytes and not shared by calls that run at once:

    int symbol(void **inputs, void **outputs, void *workspace);           CSource.workspace bytes
    int symbol_pack(void **inputs, void *packed);                         where CSource.packed is not 0
    int symbol_packed(void **inputs, void **outputs, void *workspace, void *packed);

`symbol` is always right; `symbol_packed` is `symbol` without the packing of constant inputs, which `symbol_pack` does
once. A library also exports `int re_set_threads(int)` and `int re_run(const struct re_call *, int64_t)` (calls.h).
`emit` raises `NotEmitted` for a program with host operators (`host_operators(program)` names them), `build` raises
`NoCompiler` or `CompilerFailed`: the caller runs such kernels in NumPy, and says so.
"""

from rewrite_engine.loops.emit_c.source import CSource, NotEmitted, emit, host_operators

__all__ = ["CSource", "NotEmitted", "emit", "host_operators"]
