#! 2:1: `supports` outside of a target
supports Relu
