#! 4:9: `shared` is declared in several files that are included here
include "library/one.pat"
include "library/other.pat"
rule r: shared(x) => x if x.rank < harmless
let harmless = 3
