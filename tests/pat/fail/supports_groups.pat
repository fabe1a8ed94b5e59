#! 5:12: `supports` takes single operators
#! 6:23: the condition or cost reads `a`, which Relu does not bind
#! 7:12: unknown operator `relu`
target t on host {
  supports Relu(Conv(x, w))
  supports Add(a, b), Relu if a.rank == 4
  supports relu
}
