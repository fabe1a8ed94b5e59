pattern activation(v) = Relu(v) | Sigmoid(v) | Clip(v, const _, const _)
