// Axis 0 are pixels, axis 1 their channels. On one side the pixels of a channel are a row. On the other one the channels of a
// pixel lie side by side, and pixels follow each other without a gap. A span of pixels goes through shared memory, which has the
// order of the source, so that lanes are loaded and written in the order of the memory on both sides.

const GROUP = 256u;
const LANE = u32(PER);

// Padded, since a step of 2, 4 or 8 lanes would stay in a few banks.
var<workgroup> room: array<value, ROOM + ROOM / 32u>;

// Side is how a span lies on one side: as a row for each channel, or as one row of all pixels with their channels.
struct Side {
	rows: i32,
	words: i32,
	step: i32,
	shift: u32, // 1 << shift lanes of the room are for a row
}

fn sideOf(step0: i32, step1: i32, pixels: i32) -> Side {
	if (step0 == 1) {
		return Side(i32(k.n[1]), pixels, step1, k.wide);
	}
	return Side(1, pixels * i32(k.n[1]), 0, 31u);
}

// Lane is where a lane lies, and how many of its words, and of those behind it, there are: none if left is not above 0.
struct Lane {
	at: i32,
	left: i32,
}

fn locate(side: Side, i: u32) -> Lane {
	let row = i32(i >> side.shift);
	let first = i32(i & ((1u << side.shift) - 1u)) * PER;
	return Lane(row * side.step + first, select(0, side.words - first, row < side.rows));
}

fn load(s: i32, side: Side, local: u32) {
	for (var i = local; i < ROOM; i += GROUP) {
		let lane = locate(side, i);
		if (lane.left > 0) {
			room[i + i / 32u] = src[(s + lane.at) / PER];
		}
	}
}

// store takes word e of row r from word r + e / divisor + e % divisor * factor of the room.
fn store(d: i32, side: Side, divisor: u32, factor: u32, local: u32) {
	for (var i = local; i < ROOM; i += GROUP) {
		let lane = locate(side, i);
		if (lane.left <= 0) {
			continue;
		}
		let e = (i & ((1u << side.shift) - 1u)) * LANE;
		var quotient = e / divisor;
		var rest = e % divisor;
		var words: array<value, PER>;
		for (var j = 0; j < PER; j++) {
			let at = (i >> side.shift) + quotient + rest * factor;
			let held = at / LANE;
			words[j] = wordOf(room[held + held / 32u], i32(at % LANE));
			rest++;
			if (rest == divisor) {
				rest = 0u;
				quotient++;
			}
		}
		storeWords(d + lane.at, join(words), lane.left);
	}
}

fn plane(d: i32, s: i32, group: vec3<u32>, groups: vec3<u32>, local: u32) {
	let span = LANE << k.wide;
	let toRows = k.dstStep[0] == 1;
	let divisor = select(k.n[1], 0xffffffffu, toRows);
	let factor = select(span, k.n[1], toRows);
	for (var x = group.x * span; x < k.n[0]; x += groups.x * span) {
		let pixels = i32(min(span, k.n[0] - x));
		load(s + i32(x) * k.srcStep[0], sideOf(k.srcStep[0], k.srcStep[1], pixels), local);
		workgroupBarrier();
		store(d + i32(x) * k.dstStep[0], sideOf(k.dstStep[0], k.dstStep[1], pixels), divisor, factor, local);
		workgroupBarrier();
	}
}
