// Copies words between any two layouts. WORD is the type of a word, AXES how many
// axes there are, 1 to 8. Everything is counted in words, the innermost axis first:
// neighbouring work items write neighbouring words.
__kernel void gather(__global WORD *dst, __global const WORD *src, ulong dst_at, ulong src_at,
		ulong8 steps, long8 dst_step, long8 src_step, ulong count)
{
	const ulong id = get_global_id(0);
	if (id >= count)
		return; // the last group is a whole one
	const ulong n[8] = {steps.s0, steps.s1, steps.s2, steps.s3, steps.s4, steps.s5, steps.s6, steps.s7};
	const long d[8] = {dst_step.s0, dst_step.s1, dst_step.s2, dst_step.s3, dst_step.s4, dst_step.s5, dst_step.s6, dst_step.s7};
	const long s[8] = {src_step.s0, src_step.s1, src_step.s2, src_step.s3, src_step.s4, src_step.s5, src_step.s6, src_step.s7};
	long to = dst_at, from = src_at;
	uint rest = id; // a launch has fewer than 2^32 words
	#pragma unroll
	for (int i = 0; i < AXES - 1; i++) {
		const uint axis = n[i];
		const uint next = rest / axis, step = rest - next * axis;
		to += step * d[i];
		from += step * s[i];
		rest = next;
	}
	dst[to + rest * d[AXES - 1]] = src[from + rest * s[AXES - 1]];
}
