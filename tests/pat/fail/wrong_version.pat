#! 2:10: expected language 1, found 2
language 2
