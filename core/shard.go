package core

import (
	"sync/atomic"

	"github.com/dlx-go/dlx/core/internal/spread"
)

// shard is where some of the goroutines make tensors and count. Goroutines that make and close tensors at the same
// time usually use different shards, so that they seldom write the same cache line.
type shard struct {
	wrapped source // tensors on new buffers
	views   source // tensors on existing buffers

	closed atomic.Int64 // tensors; all others that were taken from the sources of all shards are open
	freed  atomic.Int64 // buffers

	_ [128]byte // puts the next shard on other cache lines
}

// shardBits gives the number of shards. Each one that is used keeps a chunk of tensors for each of its sources.
const shardBits = 3

// shards must be summed to get a meaning: a tensor may be taken from one and counted as closed in another.
var shards [1 << shardBits]shard

// shardHere returns a shard for the running goroutine.
func shardHere() *shard { return &shards[spread.Hash()>>(32-shardBits)] }

// openCounts returns the number of buffers and of tensors that exist.
func openCounts() (buffers, tensors int64) {
	// What ends is read before what begins: what ends meanwhile does not count as ended, so no result is too small.
	for i := range shards {
		tensors -= shards[i].closed.Load()
		buffers -= shards[i].freed.Load()
	}
	for i := range shards {
		wrapped := shards[i].wrapped.handedOut()
		buffers += wrapped
		tensors += wrapped + shards[i].views.handedOut()
	}
	return buffers, tensors
}
