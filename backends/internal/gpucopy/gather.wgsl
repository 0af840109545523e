// Copies words between two strided layouts, as gather.comp does. wgsl.go puts before it what depends on the word:
//
//	value           a word in a register, or a lane: what is written at once
//	PER, ROOM       the words of a lane, and the lanes of 8 KiB
//	BITS, MASK      the bits of a word, where words have less than 4 bytes. dst then has atomic<u32>, so that words are changed alone
//	wordOf, join    from a lane to a word, and back
//	storeWord, storeLane
//
// and after it the function plane of one of the other files.

struct Constants {
	dstFirst: i32,
	srcFirst: i32,
	planes: u32,
	wide: u32,  // the invocations of a group cover 1 << wide lanes of axis 0; of channels, a span has so many
	along: u32, // 1 << along items of an invocation follow each other on axis 0, the others on axis 1
	whole: u32, // not 0: all lanes are aligned on both sides. For words of less than 4 bytes, tiles and channels need it
	n: array<u32, 8>,
	dstStep: array<i32, 8>,
	srcStep: array<i32, 8>,
}

@group(0) @binding(2) var<storage, read> k: Constants;

fn fromAt(s: i32, x: u32, y: u32) -> i32 { return s + i32(x) * k.srcStep[0] + i32(y) * k.srcStep[1]; }

fn toAt(d: i32, x: u32, y: u32) -> i32 { return d + i32(x) * k.dstStep[0] + i32(y) * k.dstStep[1]; }

fn loadWord(at: i32) -> value { return wordOf(src[at / PER], at % PER); }

// storeWords writes the first words of a lane.
fn storeWords(at: i32, lane: value, count: i32) {
	if (count >= PER) {
		storeLane(at, lane);
		return;
	}
	for (var j = 0; j < count; j++) {
		storeWord(at + j, wordOf(lane, j));
	}
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
	for (var z = group.z; z < k.planes; z += groups.z) {
		var d = k.dstFirst;
		var s = k.srcFirst;
		var rest = z;
		for (var a = 2; a < 8 && rest != 0u; a++) {
			let i = i32(rest % k.n[a]);
			rest /= k.n[a];
			d += i * k.dstStep[a];
			s += i * k.srcStep[a];
		}
		plane(d, s, group, groups, local);
	}
}
