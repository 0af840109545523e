//go:build !linux

package tensorfile

import "errors"

// openDirect returns an error: this package reads past the page cache only on Linux.
func (s *shard) openDirect() error { return errors.New("that is implemented only on Linux") }

// onlyHeader does nothing.
func (s *shard) onlyHeader() (size int64, restore func()) { return 0, func() {} }

func (s *shard) expect(int64) {}

// cached does not know.
func (s *shard) cached(int64, int64) (part float64, ok bool) { return -1, false }

func allocateHuge(n int64) ([]byte, func([]byte) error) { return allocateBlocks(n), nil }

func adviseHuge([]byte) {}

func populated([]byte) bool { return false }
