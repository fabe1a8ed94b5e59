"""A client that knows nothing of rewrite_engine: the TVM 0.19 graph executor runs a bundle's files.

python tvm_graph.py BUNDLE INPUTS.npz OUTPUTS.npz: graph.json, lib/kernels.so and params.bin go to TVM unchanged. Every
device beside the host is played by the CPU under the device's own DLPack type. Prints what it did.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import tvm
from tvm.contrib import graph_executor

HOST = 1


def main(folder: str, inputs: str, outputs: str) -> None:
    root = Path(folder)
    text = (root / "graph.json").read_text()
    graph = json.loads(text)
    types = sorted(set(graph["attrs"]["device_index"][1]) | {HOST})
    cpu = tvm.get_global_func("device_api.cpu")
    names = {kind: tvm.runtime.Device.MASK2STR[kind] for kind in types}
    for kind in types:
        if kind != HOST:
            tvm.register_func(f"device_api.{names[kind]}", lambda *_: cpu(), override=True)
    library = tvm.runtime.load_module(str(root / "lib" / "kernels.so"))
    module = graph_executor.create(text, library, [tvm.device(names[kind], 0) for kind in types])
    module.load_params((root / "params.bin").read_bytes())
    with np.load(inputs) as given:
        feed = {name: given[name] for name in given.files}
    for name, array in feed.items():
        module.set_input(name, array)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        module.run()
        seconds.append(time.perf_counter() - started)
    found = [module.get_output(index).numpy() for index in range(module.get_num_outputs())]
    np.savez(outputs, **{f"{index}": array for index, array in enumerate(found)})
    functions = [node["attrs"]["func_name"] for node in graph["nodes"] if node["op"] == "tvm_op"]
    copies = functions.count("__copy")
    print(f"TVM {tvm.__version__} graph executor: {len(functions) - copies} kernels and {copies} copies on")
    print("  " + ", ".join(f"{names[kind]}({kind})" for kind in types))
    for index, array in enumerate(found):
        print(f"  output {index}: {array.dtype}{list(array.shape)}, sum {float(array.astype('f8').sum()):.6f}")
    print(f"  {min(seconds) * 1e3:.2f} ms, the least of {len(seconds)} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
