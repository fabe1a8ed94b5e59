#! 3:48: unknown name `float23`
#! 4:35: unknown dtype `float23`
rule r: Relu(Relu(x)) => Relu(x) if x.dtype == float23
target t on host { composite c(x: float23[1]) = Relu(x) }
