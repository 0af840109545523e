package gpucopy

import (
	_ "embed"
	"fmt"
)

// The text of every shader, and the function plane of each kind.
var (
	//go:embed gather.wgsl
	wgslSource string
	//go:embed gather_rows.wgsl
	wgslRows string
	//go:embed gather_tiled.wgsl
	wgslTiled string
	//go:embed gather_channels.wgsl
	wgslChannels string
)

// WGSL returns the shader in WebGPU's language, with the entry main. It is "" for a Shader that [Plan] never uses with
// [WebGPULimits], such as one for words of 1 or 2 bytes that are not packed, since WGSL has no such words in buffers. Bindings 0
// and 1 are storage buffers, as in GLSL; binding 2 is a read-only storage buffer with the 120 bytes of the Constants. A
// pipeline needs at most [WGSLGroupMemory] bytes of workgroup memory if the shader is Tiled or has Channels, and none otherwise.
func (s Shader) WGSL() string {
	text := wgslSource
	switch {
	case s.Tiled && !s.Channels && s.Word < maxWord:
		text += wgslTiled
	case s.Channels && !s.Tiled && s.Word < maxWord:
		text += wgslChannels
	case !s.Tiled && !s.Channels:
		text += wgslRows
	default:
		return ""
	}
	word := map[uint8]string{4: "u32", 8: "vec2<u32>", 16: "vec4<u32>"}[s.Word]
	switch {
	case s.Packed && (s.Word == 1 || s.Word == 2):
		return fmt.Sprintf(wgslPacked, 4/s.Word, 8*s.Word, uint32(1)<<(8*s.Word)-1) + text
	case !s.Packed && word != "":
		return fmt.Sprintf(wgslWords, word, s.Word) + text
	}
	return ""
}

// WGSLGroupMemory is how many bytes of workgroup memory a shader with tiles needs.
const WGSLGroupMemory = 8704

// Words that share a u32 are changed by atomic operations, since others of it may belong to other invocations.
const wgslPacked = `alias value = u32;
const PER: i32 = %d;
const ROOM = 2048u;
const BITS = %du;
const MASK = %du;
@group(0) @binding(0) var<storage, read_write> dst: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> src: array<u32>;

fn wordOf(lane: value, j: i32) -> value { return (lane >> (u32(j) * BITS)) & MASK; }

fn join(words: array<value, PER>) -> value {
	var lane = 0u;
	for (var j = 0; j < PER; j++) {
		lane |= words[j] << (u32(j) * BITS);
	}
	return lane;
}

fn storeWord(at: i32, word: value) {
	let shift = u32(at %% PER) * BITS;
	atomicAnd(&dst[at / PER], ~(MASK << shift));
	atomicOr(&dst[at / PER], word << shift);
}

fn storeLane(at: i32, lane: value) { atomicStore(&dst[at / PER], lane); }

`

const wgslWords = `alias value = %s;
const PER: i32 = 1;
const ROOM = 8192u / %du;
@group(0) @binding(0) var<storage, read_write> dst: array<value>;
@group(0) @binding(1) var<storage, read> src: array<value>;

fn wordOf(lane: value, j: i32) -> value { return lane; }
fn join(words: array<value, PER>) -> value { return words[0]; }
fn storeWord(at: i32, word: value) { dst[at] = word; }
fn storeLane(at: i32, lane: value) { dst[at] = lane; }

`

// WebGPULimits returns limits for a device of WebGPU, whose storage range and alignment are given.
func WebGPULimits(storageRange, alignment int64, groups uint32) Limits {
	return Limits{StorageRange: storageRange &^ 3, OffsetAlignment: alignment, Groups: [3]uint32{groups, groups, groups}, PackedTiles: true}
}
