// The builtins of clang for AMD's cards that HIP's text uses, on the host: included before the text.
#include <stdint.h>

extern "C" uint32_t dlx_thread(), dlx_threads(), dlx_block(int), dlx_grid(int);
extern "C" void dlx_barrier();

#define __builtin_amdgcn_workitem_id_x() dlx_thread()
#define __builtin_amdgcn_workgroup_id_x() dlx_block(0)
#define __builtin_amdgcn_workgroup_id_y() dlx_block(1)
#define __builtin_amdgcn_workgroup_id_z() dlx_block(2)
// In threads, which are all on axis x.
#define __builtin_amdgcn_grid_size_x() (dlx_grid(0) * dlx_threads())
#define __builtin_amdgcn_grid_size_y() dlx_grid(1)
#define __builtin_amdgcn_grid_size_z() dlx_grid(2)
#define __builtin_amdgcn_fence(order, scope)
#define __builtin_amdgcn_s_barrier() dlx_barrier()
#define __builtin_amdgcn_perm dlx_perm
#define __attribute__(attributes)

// V_PERM_B32: a byte of the selector from 0 to 3 is that byte of low, from 4 to 7 one of high ("RDNA ISA Reference").
static inline uint32_t dlx_perm(uint32_t high, uint32_t low, uint32_t selector) {
	const uint64_t both = uint64_t(high) << 32 | low;
	uint32_t result = 0;
	for (int i = 0; i < 4; i++) result |= uint32_t(both >> (selector >> 8 * i & 7) * 8 & 0xff) << 8 * i;
	return result;
}
