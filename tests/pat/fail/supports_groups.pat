#! 4:12: `supports` takes single operators
#! 5:23: the condition or cost reads `a`, which Relu does not bind
target t on host {
  supports Relu(Conv(x, w))
  supports Add(a, b), Relu if a.rank == 4
}
