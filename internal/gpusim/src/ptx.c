// The interpreter lies in a folder of its own, where it is a Go package too, for its tests.
#include "../ptx/load.c"
#include "../ptx/decode.c"
#include "../ptx/run.c"
