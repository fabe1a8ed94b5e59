#! 3:13: unknown device `npu`
#! 4:14: unknown device `npu`
target t on npu { supports Relu }
link host -> npu: 1us
device npu0 { memory 1MiB }
