#! 3:25: expected `}`, found the end of the file
target t on host {
  supports Relu, Sigmoid
