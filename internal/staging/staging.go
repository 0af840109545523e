// Package staging brings copies through staging memory, in pieces: for the backends, for moves through the host, and for
// files. It says how much of a copy, or of many small ones, goes through staging memory at once.
package staging

// PieceBytes is the size of a piece. Smaller pieces are slower, since each has a fixed cost; larger ones do not
// stay in the cache. RATIONALE.md has the measurements.
const PieceBytes = 4 << 20

// Many small copies that are submitted together share staging memory: a batch.
const (
	// SmallBytes is the largest copy that shares it. A larger one has its own, in pieces.
	SmallBytes = 1 << 20
	// BatchBytes is how much of it a batch uses. More makes another batch.
	BatchBytes = 4 * PieceBytes
	// alignment is that of each copy in it.
	alignment = 64
)

// InBatch returns how many bytes a copy of n bytes takes in the staging memory of a batch.
func InBatch(n int64) int64 { return (n + alignment - 1) / alignment * alignment }
