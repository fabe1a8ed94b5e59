"""C for programs: `emit(program, symbol) -> CSource`; `loops.build_c.build(sources) -> Library` compiles and loads it.

    library = build([emit(compose(program), "conv1"), ...])
    kernel = library.kernel("conv1")       # kernel(inputs, outputs): the backend's `Kernel`
    kernel(inputs, outputs)

An exported function is `int symbol(void **inputs, void **outputs, void *workspace)`: pointers to contiguous arrays in
the program's order, and `CSource.workspace` bytes aligned to 64; it returns 0. `emit` raises `NotEmitted` for a program
with host operators (`host_operators(program)` names them), `build` raises `NoCompiler` or `CompilerFailed`: the caller
runs such kernels in NumPy, and says so.
"""

from rewrite_engine.loops.emit_c.source import CSource, NotEmitted, emit, host_operators

__all__ = ["CSource", "NotEmitted", "emit", "host_operators"]
