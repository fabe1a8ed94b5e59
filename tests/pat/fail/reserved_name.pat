#! 2:5: expected a name, found `where`
let where = 3
