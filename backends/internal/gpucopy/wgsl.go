package gpucopy

import (
	_ "embed"
	"fmt"
)

//go:embed gather.wgsl
var wgslSource string

// WGSL returns the shader in WebGPU's language, with the entry main, or "" for a Shader that is not for WebGPU: words in
// shared memory, and words of 1 or 2 bytes that are not packed, since WGSL has no such words in buffers. Bindings 0 and 1 are
// storage buffers, as in GLSL; binding 2 is a read-only storage buffer with the 120 bytes of the Constants.
func (s Shader) WGSL() string {
	if s.Tiled || s.Channels || s.Word < 4 != s.Packed {
		return ""
	}
	if s.Packed {
		return fmt.Sprintf(wgslPacked, 4/s.Word, 8*s.Word, uint32(1)<<(8*s.Word)-1) + wgslSource
	}
	return fmt.Sprintf(wgslWords, map[uint8]string{4: "u32", 8: "vec2<u32>", 16: "vec4<u32>"}[s.Word]) + wgslSource
}

// Words that share a u32 are changed by atomic operations, since others of it may belong to other invocations.
const wgslPacked = `alias value = u32;
const PER: i32 = %d;
const BITS = %du;
const MASK = %du;
@group(0) @binding(0) var<storage, read_write> dst: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> src: array<u32>;

fn loadWord(at: i32) -> value { return src[at / PER] >> (u32(at %% PER) * BITS) & MASK; }

fn storeWord(at: i32, word: value) {
	let shift = u32(at %% PER) * BITS;
	atomicAnd(&dst[at / PER], ~(MASK << shift));
	atomicOr(&dst[at / PER], word << shift);
}

fn storeLane(at: i32, words: array<value, PER>) {
	var joined = 0u;
	for (var j = 0; j < PER; j++) {
		joined |= words[j] << (u32(j) * BITS);
	}
	atomicStore(&dst[at / PER], joined);
}

`

const wgslWords = `alias value = %s;
const PER: i32 = 1;
@group(0) @binding(0) var<storage, read_write> dst: array<value>;
@group(0) @binding(1) var<storage, read> src: array<value>;

fn loadWord(at: i32) -> value { return src[at]; }
fn storeWord(at: i32, word: value) { dst[at] = word; }
fn storeLane(at: i32, words: array<value, PER>) { dst[at] = words[0]; }

`

// WebGPULimits returns limits for a device of WebGPU, whose storage range and alignment are given.
func WebGPULimits(storageRange, alignment int64, groups uint32) Limits {
	return Limits{StorageRange: storageRange &^ 3, OffsetAlignment: alignment, Groups: [3]uint32{groups, groups, groups}}
}
