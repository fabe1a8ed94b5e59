#! 3:9: unknown operator `Reluu`
#! 4:20: unknown operator `HardSwich`
rule r: Reluu(Relu(x)) => Relu(x)
rule s: Relu(x) => HardSwich(x)
