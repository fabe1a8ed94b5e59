#! 2:1: include cycle: 
include "include_itself.pat"
