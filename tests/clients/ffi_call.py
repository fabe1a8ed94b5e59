"""A client that knows nothing of rewrite_engine: apache-tvm-ffi calls the kernels of a library on NumPy arrays.

python ffi_call.py BUNDLE CALLS.npz: the archive has SYMBOL/inN and SYMBOL/outN, operands and results. Prints, as JSON,
each result's largest difference relative to its magnitude, and what calls with wrong arguments say.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tvm_ffi


def main(folder: str, calls: str) -> None:
    root = Path(folder)
    library = tvm_ffi.load_module(str(root / "lib" / "kernels.so"))
    functions = json.loads((root / "metadata.json").read_text())["functions"]
    with np.load(calls) as archive:
        arrays = {name: archive[name] for name in archive.files}
    errors = {}
    for symbol, facts in functions.items():
        given = [arrays[f"{symbol}/in{at}"] for at in range(len(facts["inputs"]))]
        expected = [arrays[f"{symbol}/out{at}"] for at in range(len(facts["outputs"]))]
        results = [np.full_like(array, 77) for array in expected]
        getattr(library, symbol)(*map(tvm_ffi.from_dlpack, [*given, *results]))
        errors[symbol] = max(
            float(np.abs(a.astype("f8") - b).max() / max(np.abs(b).max(), 1e-30))
            for a, b in zip(results, expected, strict=True)
        )
    arrays = [*given, *results]
    wrong = (
        arrays[1:],
        [np.zeros(3, np.float32)] * len(arrays),
        [array.astype(np.float64) for array in arrays],
        [np.empty(array.shape[::-1], array.dtype).T for array in arrays],
    )
    refused = []
    for arguments in wrong:
        try:
            getattr(library, symbol)(*map(tvm_ffi.from_dlpack, arguments))
        except ValueError as error:
            refused.append(str(error))
    print(json.dumps({"errors": errors, "refused": refused, "version": tvm_ffi.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
