#! 2:9: typographic quote U+201C (left double quotation mark)
include “std/a.pat”
