#! 4:3: unknown declaration `suports`
target t on host {
  supports Relu
  suports Add(a, b), Mul(a, b)
  supports Sigmoid
}
