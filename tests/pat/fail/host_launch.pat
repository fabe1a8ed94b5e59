#! 3:15: target `host` has launch 0: it starts no regions
#! 4:1: target `host2` names no device
target host { launch 3us flops 3GFLOPS }
target host2 { supports Relu }
