// The interpreter lies in a folder of its own, where it is a Go package too, for its tests.
#include "../ptx/decode.c"
#include "../ptx/load.c"
#include "../ptx/run.c"
#include "../ptx/token.c"
