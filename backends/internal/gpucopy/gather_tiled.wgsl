// Axis 0 is dense in the destination, axis 1 in the source. The tile has 8 KiB and cells of PER by PER words. An invocation
// loads lanes along axis 1, and transposes its cells, so that the tile holds lanes along axis 0.

const GROUP = 256u;
const LANE = u32(PER);
const SIDE = 32u;
const COLUMNS = ROOM / (LANE * SIDE);
const CELLS = COLUMNS * SIDE / GROUP; // of an invocation
const PITCH = SIDE + max(SIDE / COLUMNS, 1u); // so that what neighbours read along axis 0 lies in different banks

var<workgroup> tile: array<value, LANE * COLUMNS * PITCH>;

// load and store move the tile that begins at word x0, y0 of the plane. Lanes outside the plane are loaded from its edge.
fn load(s: i32, x0: u32, y0: u32, local: u32) {
	let column = local / SIDE;
	let row = local % SIDE;
	let y = min(y0 + row * LANE, (k.n[1] - 1u) / LANE * LANE);
	var cells: array<array<value, PER>, CELLS>;
	for (var i = 0u; i < CELLS; i++) {
		for (var j = 0u; j < LANE; j++) {
			let x = min(x0 + (column + i * (GROUP / SIDE)) * LANE + j, k.n[0] - 1u);
			cells[i][j] = src[fromAt(s, x, y) / PER];
		}
	}
	for (var i = 0u; i < CELLS; i++) {
		for (var m = 0; m < PER; m++) {
			var words: array<value, PER>;
			for (var j = 0; j < PER; j++) {
				words[j] = wordOf(cells[i][j], m);
			}
			tile[(u32(m) * COLUMNS + column + i * (GROUP / SIDE)) * PITCH + row] = join(words);
		}
	}
}

fn store(d: i32, x0: u32, y0: u32, local: u32) {
	let column = local % COLUMNS;
	let row = local / COLUMNS;
	let x = x0 + column * LANE;
	for (var i = 0u; i < CELLS; i++) {
		let part = row + i * (GROUP / COLUMNS);
		for (var j = 0u; j < LANE; j++) {
			let y = y0 + part * LANE + j;
			if (x < k.n[0] && y < k.n[1]) {
				storeWords(toAt(d, x, y), tile[(j * COLUMNS + column) * PITCH + part], i32(k.n[0] - x));
			}
		}
	}
}

fn plane(d: i32, s: i32, group: vec3<u32>, groups: vec3<u32>, local: u32) {
	const width = COLUMNS * LANE;
	const height = SIDE * LANE;
	for (var y = group.y * height; y < k.n[1]; y += groups.y * height) {
		for (var x = group.x * width; x < k.n[0]; x += groups.x * width) {
			load(s, x, y, local);
			workgroupBarrier();
			store(d, x, y, local);
			workgroupBarrier();
		}
	}
}
