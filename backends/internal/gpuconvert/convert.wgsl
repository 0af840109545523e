// Converts as convert.inc does, in the language of WebGPU.

struct Constants {
	dstFirst: i32,
	srcFirst: i32,
	count: u32,
	kinds: u32,
	channels: u32,
	channelDst: i32,
	channelSrc: i32,
	n: array<u32, 4>,
	dstStep: array<i32, 4>,
	srcStep: array<i32, 4>,
	scale: array<f32, 4>,
	offset: array<f32, 4>,
}

@group(0) @binding(0) var<storage, read_write> dst: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> src: array<u32>;
@group(0) @binding(2) var<storage, read> k: Constants;

// rounded returns x. The highest bits of kinds are 0, which no compiler knows: it cannot put the operation that made x
// together with the one that uses it, and round once.
fn rounded(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ (k.kinds >> 8u)); }

fn get8(i: i32) -> u32 { return (src[i >> 2u] >> ((u32(i) & 3u) * 8u)) & 0xffu; }
fn get16(i: i32) -> u32 { return (src[i >> 1u] >> ((u32(i) & 1u) * 16u)) & 0xffffu; }

// put sets the bits of an element, and no others: their words may belong to other invocations.
fn put(at: i32, mask: u32, shift: u32, value: u32) {
	atomicAnd(&dst[at], ~(mask << shift));
	atomicOr(&dst[at], (value & mask) << shift);
}
fn put8(i: i32, x: u32) { put(i >> 2u, 0xffu, (u32(i) & 3u) * 8u, x); }
fn put16(i: i32, x: u32) { put(i >> 1u, 0xffffu, (u32(i) & 1u) * 16u, x); }

fn load(i: i32) -> i32 {
	switch k.kinds & 15u {
	case 0u: { return i32(get8(i)); }
	case 1u: { return i32(get8(i) << 24u) >> 24u; }
	case 2u: { return i32(get16(i)); }
	default: { return i32(get16(i) << 16u) >> 16u; }
	}
}

fn half(bits: u32) -> u32 {
	let sign = (bits >> 16u) & 0x8000u;
	let magnitude = bits & 0x7fffffffu;
	if magnitude >= 0x47800000u {
		return sign | 0x7c00u;
	}
	if magnitude >= 0x38800000u {
		return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
	}
	if magnitude < 0x33000000u {
		return sign;
	}
	let m = (magnitude & 0x7fffffu) | 0x800000u; // subnormal
	let shift = 126u - (magnitude >> 23u);
	return sign | ((m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift);
}

fn store(i: i32, y: f32) {
	let bits = bitcast<u32>(y);
	switch (k.kinds >> 4u) & 15u {
	case 0u: { atomicStore(&dst[i], bits); }
	case 1u: { put16(i, half(bits)); }
	case 2u: { put16(i, (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u); } // bfloat16
	case 3u: { put8(i, u32(i32(clamp(y, 0.0, 255.0)))); }
	case 4u: { put8(i, u32(i32(clamp(y, -128.0, 127.0)))); }
	case 5u: { put16(i, u32(i32(clamp(y, 0.0, 65535.0)))); }
	default: { put16(i, u32(i32(clamp(y, -32768.0, 32767.0)))); }
	}
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
	for (var item = id.x; item < k.count; item += groups.x * 64u) {
		var rest = item;
		var into = k.dstFirst;
		var at = k.srcFirst;
		for (var a = 0; a < 4 && rest != 0u; a++) {
			let i = i32(rest % k.n[a]);
			rest /= k.n[a];
			into += i * k.dstStep[a];
			at += i * k.srcStep[a];
		}
		for (var c = 0u; c < k.channels; c++) {
			let product = rounded(f32(load(at)) * k.scale[c]);
			store(into, product + k.offset[c]);
			into += k.channelDst;
			at += k.channelSrc;
		}
	}
}
