#! 3:1: no such file "library/nothing.pat"
#! 5:9: unknown operator `Reluu`
include "library/nothing.pat"
rule r: might_be_there(x) => x
rule s: Reluu(x) => x
