#! 3:1: "../pass/features.pat" leaves the folder of this file and the pattern path
#! 4:1: "/etc/passwd" leaves the folder of this file and the pattern path
include "../pass/features.pat"
include "/etc/passwd"
