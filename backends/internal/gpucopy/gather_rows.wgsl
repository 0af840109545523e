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
					storeLane(toAt(d, u32(first), y), join(words[i]));
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
