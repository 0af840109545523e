// Copies words between two strided layouts, as gather.comp does without shared memory. wgsl.go puts before it what
// depends on the Shader:
//
//	value     a word in a register
//	element   what a buffer is an array of: atomic<u32> where words share a u32, so that they are changed alone
//	PER, BITS, MASK  the words of a lane, which is written at once, and their bits, where words have less than 4 bytes
//	loadWord, storeWord, storeLane

struct Constants {
	dstFirst: i32,
	srcFirst: i32,
	planes: u32,
	wide: u32,  // the invocations of a group cover 1 << wide lanes of axis 0
	along: u32, // 1 << along items of an invocation follow each other on axis 0, the others on axis 1
	whole: u32,
	n: array<u32, 8>,
	dstStep: array<i32, 8>,
	srcStep: array<i32, 8>,
}

@group(0) @binding(2) var<storage, read> k: Constants;

fn fromAt(s: i32, x: u32, y: u32) -> i32 { return s + i32(x) * k.srcStep[0] + i32(y) * k.srcStep[1]; }

fn toAt(d: i32, x: u32, y: u32) -> i32 { return d + i32(x) * k.dstStep[0] + i32(y) * k.dstStep[1]; }

const ITEM_BITS = 2u;
const ITEMS = 4u;

// firstOf is the first word of a lane in its row. Where a row is dense in the destination,
// its lanes are aligned, and the first and the last may be partly outside.
fn firstOf(d: i32, x: u32, y: u32) -> i32 {
	var before = 0;
	if (k.dstStep[0] == 1) {
		before = toAt(d, 0u, y) & (PER - 1);
	}
	return i32(x) * PER - before;
}

// Neighbouring invocations go along axis 0, by lanes. An invocation loads all items of a
// step before it writes one. Words outside the plane are loaded from its edge, so that no
// load waits for a condition.
fn plane(d: i32, s: i32, group: vec3<u32>, groups: vec3<u32>, local: u32) {
	let high = 8u - k.wide;
	let width = k.wide + k.along;
	let height = high + ITEM_BITS - k.along;
	let lanes = (k.n[0] + 2u * (u32(PER) - 1u)) / u32(PER); // where the row begins within one
	let last = i32(k.n[0]) - 1;
	for (var y0 = (group.y << height) + (local >> k.wide); y0 < k.n[1]; y0 += groups.y << height) {
		for (var x0 = (group.x << width) + (local & ((1u << k.wide) - 1u)); x0 < lanes; x0 += groups.x << width) {
			var words: array<array<value, PER>, ITEMS>;
			for (var i = 0u; i < ITEMS; i++) {
				let x = x0 + ((i & ((1u << k.along) - 1u)) << k.wide);
				let y = min(y0 + ((i >> k.along) << high), k.n[1] - 1u);
				let first = firstOf(d, x, y);
				for (var j = 0; j < PER; j++) {
					words[i][j] = loadWord(fromAt(s, u32(clamp(first + j, 0, last)), y));
				}
			}
			for (var i = 0u; i < ITEMS; i++) {
				let x = x0 + ((i & ((1u << k.along) - 1u)) << k.wide);
				let y = y0 + ((i >> k.along) << high);
				let first = firstOf(d, x, y);
				if (y >= k.n[1]) {
					continue;
				}
				if (PER > 1 && k.dstStep[0] == 1 && first >= 0 && first + PER <= i32(k.n[0])) {
					storeLane(toAt(d, u32(first), y), words[i]);
					continue;
				}
				for (var j = 0; j < PER; j++) {
					if (first + j >= 0 && first + j <= last) {
						storeWord(toAt(d, u32(first + j), y), words[i][j]);
					}
				}
			}
		}
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
