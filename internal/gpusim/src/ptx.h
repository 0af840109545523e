#include "../ptx/ptx.h"
