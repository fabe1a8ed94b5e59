#! 2:15: expected `,` or `)`, found `y`
rule r: Add(x y) => Add(y, x)
