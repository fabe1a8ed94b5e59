#! 4:5: `sqrt` is a function already
#! 5:9: `float32` is a dtype already
#! 6:5: `inf` is a word of the language already
let sqrt(x) = x
pattern float32(x) = Relu(x)
let inf = 3
