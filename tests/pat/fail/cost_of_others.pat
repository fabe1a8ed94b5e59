#! 7:28: `.cost` can be read in composites only
#! 8:19: `bytes` can be read in a cost only
#! 10:42: `.cost` can be read in composites only
#! 10:58: supported() can be asked in composites only
#! 11:34: profile() can only be a cost
target t on host {
  supports Relu(x) as y if y.cost < 3us
  supports Abs if bytes < 3KiB
}
rule r: Relu(Relu(x)) as y => Relu(x) if y.cost < 3us or supported(y)
rule s: Abs(Abs(x)) => Abs(x) if profile("a") < 3us
