#! 3:25: Softmax has no attribute `axes`
#! 4:52: Transpose has no attribute `perms`
rule r: Relu(Softmax(x, axes=1)) => Softmax(x)
rule s: Transpose(x, perm=p) => Transpose(x, perms=p)
