#! 4:5: warning: let `a` is not used
#! 6:9: warning: pattern `p` is not used
include "library/one.pat"
let a = 3
let used = 4
pattern p(x) = Relu(x)
rule r: unshared(unshared(x)) => Relu(x) if x.rank == used
