#! 3:39: unknown unit `parsecs`
#! 4:19: unknown unit `MiBs`
target t on host { supports Relu cost 3parsecs }
device d { memory 3MiBs }
