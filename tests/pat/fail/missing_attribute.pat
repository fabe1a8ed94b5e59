#! 2:20: Cast needs the attribute `to`
rule r: Relu(x) => Cast(x)
