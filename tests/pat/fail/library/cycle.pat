include "back.pat"
