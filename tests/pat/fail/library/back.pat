include "cycle.pat"
