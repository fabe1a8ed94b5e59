## Every declaration keyword is a name where a name may stand; reserved words alone are not.
let include = 3
let language(let) = let + include
pattern target(test, cost, energy, launch) = Add(Mul(test, cost), Mul(energy, launch))
pattern pattern(rule, like, place, option) = target(rule, like, place, memory) as link where memory = Relu(option) if link.rank < language(1)
rule rule: pattern(device, link, in_, on) => Relu(Sum(device, link, in_, on))
target supports on device { option flops = 1 composite composite(runs) = Sub(runs, const is) if flops == 1 and is.rank == 0 }
device device { memory 1MiB }
