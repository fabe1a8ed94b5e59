#! 6:60: input X of Conv cannot be int8
#! 7:51: input X of Conv cannot be {int8, uint8}
let q8 = {int8, uint8}
pattern conv(v, w) = Conv(v, w)
target t on host {
  composite a(x: int8[1, C, H, W], w: float32[...]) = Conv(x, w)
  composite b(x: q8[...], w: float32[...]) = conv(x, w)
}
