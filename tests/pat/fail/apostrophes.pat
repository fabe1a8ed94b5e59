#! 2:9: unexpected `'`
include 'std/a.pat'
